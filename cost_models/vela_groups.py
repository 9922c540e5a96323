"""The default model: Vela measures fused groups of operators in context, and pairwise terms account for fusion.

Measured prices are remembered on disk.
A unit is compiled between pads, which do not count; a pad is a CLAMP with a second reader, so that it cannot fuse.
So a unit has the formats of inner tensors, not those of graph inputs and outputs.
(A movement that reads an input is measured on an input.)

Multiply-accumulate ops carry the RESCALE that fuses into them.
Sums, products and REDUCE_SUMs carry the RESCALEs before and after.
So their own price is that of the fused group, and the pairwise terms subtract the RESCALEs' prices.
Units that differ only in scales, zero points, tables or values of summands share a price.
Units whose ends have no pad (INT32, BOOL) are estimated by the closed form (`closed_form.py`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from cost_models.cache import PriceCache
from cost_models.closed_form import estimate_cycles, price_copy
from cost_models.fusion import MACS, SUMS, fuses, is_part
from cost_models.legality import legal, legal_transpose
from cost_models.measuring import measure
from cost_models.probes import canonical, has_pad, is_wide_sum, with_narrow_constant
from cost_models.protocol import Fusion, Price, Unit
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.target.staging import TransposeSteps, reordering, ways, write_steps
from eqsat.tensor import makers
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import DType, Shape, Steps, Type, attrs_of
from eqsat.tosa import flatbuffer
from eqsat.vela import regor, rows
from eqsat.vela.facts import version as vela_version
from eqsat.vela.patterns import ACTIVATIONS

#: Ops on single elements that are measured.
_POINTWISE = ("rescale", *ACTIVATIONS)
#: Ops that are measured, besides transposes and reshapes.
_MEASURED = frozenset(name for name, op in OPS.items() if op.tosa and op.kind in ("axial", "concat", "mac")).union(
    MACS, _POINTWISE, SUMS, ["matmul_rows"]
)


class _Reordering(NamedTuple):
    """The parts of a movement that its price depends on.

    sizes, perm: result axis i is operand axis perm[i], of sizes[perm[i]] elements.
    """

    sizes: Shape
    perm: tuple[int, ...]
    dtype: str
    from_input: bool


class _Sum(NamedTuple):
    """The parts of a sum with an INT8 constant that its price depends on.

    constant: the type of the constant before its RESCALE.
    """

    steps: Steps
    operands: tuple[Type, ...]
    constant: Type


class VelaGroups:
    """A model that prices fused groups, which Vela compiles; the module's text says how.

    pool : Vela workers
    cache: prices on disk
    """

    in_cycles: bool = True

    def __init__(self, target: Target, pool: Pool, cache: PriceCache):
        self.target, self.pool, self.cache = target, pool, cache
        self._known: dict[str, float] = {}
        self._ratios: dict[_Sum, float] = {}

    # ---- single units -----------------------------------------------------------------------------

    def price(self, units: Sequence[Unit]) -> list[Price]:
        moves = {
            unit: _Reordering(*reordering(unit.move), unit.result.dtype, unit.from_input)
            for unit in units
            if unit.move is not None
        }
        wanted = list(dict.fromkeys(moves.values()))

        with ThreadPoolExecutor(1) as beside:  # this thread waits for the workers of Vela
            legal_ways = beside.submit(lambda: [self._legal_ways(w) for w in wanted])
            others = iter(self._cycles([unit for unit in units if unit.move is None]))
        best = self._chains(dict(zip(wanted, legal_ways.result(), strict=True)))
        out: list[Price] = []
        for unit in units:
            if unit.move is None:
                out.append(Price(next(others), unit.steps))
            else:
                cycles, chain = best[moves[unit]]
                out.append(Price(cycles, write_steps(unit.move, chain)))
        copies = self._copies(units, out)
        self._measure_possible_ratios(units)
        return [_with_copy(p, unit, copies) for unit, p in zip(units, out, strict=True)]

    def _chains(
        self, options: Mapping[_Reordering, Sequence[TransposeSteps]]
    ) -> dict[_Reordering, tuple[float, TransposeSteps]]:
        """Returns {reordering: (cycles, steps) of the cheapest of its chains}, measured."""
        units = []
        for wanted, chains in options.items():
            move = Move.transpose(wanted.sizes, wanted.perm)
            operand, result = Type(move.in_shape, wanted.dtype), Type(move.out_shape, wanted.dtype)
            units += [Unit(write_steps(move, c), (operand,), result, from_input=wanted.from_input) for c in chains]
        prices = iter(self._cycles(units))
        return {
            wanted: min(((next(prices), c) for c in chains), key=lambda pc: (pc[0], len(pc[1])), default=(math.inf, ()))
            for wanted, chains in options.items()
        }

    def _legal_ways(self, wanted: _Reordering) -> list[TransposeSteps]:
        """Returns the legal chains of a reordering."""
        return [
            c
            for c in ways(wanted.sizes, wanted.perm, DType.of(wanted.dtype).size, self.target.family)
            if all(legal_transpose(shape, wanted.dtype, self.target.family) for shape, _ in c)
        ]

    def _copies(self, units: Sequence[Unit], prices: Sequence[Price]) -> dict[Type, float]:
        """Returns the cycles of copies.

        Keys are the operand of a unit that begins with a view, and the result of a SLICE.
        In a probe the operand has another reader, so that the view is a copy.
        """
        views: dict[Type, Unit] = {}
        for unit, price in zip(units, prices, strict=True):
            if is_part(unit):
                views.setdefault(unit.result, _flatten(unit.result))
            elif _begins_with_view(price):
                shape = dict(price.steps[0][1])["shape"]
                view = Unit(price.steps[:1], unit.operands, replace(unit.result, shape=shape))
                if view.operands[0] != view.result:
                    views[unit.operands[0]] = view
        known = self._measure(views.values())
        return {t: known[v] if v in known else price_copy(v, self.target) for t, v in views.items()}

    def _cycles(self, units: Sequence[Unit]) -> list[float]:
        """Returns the cycles of units that have steps."""
        canonicals = [canonical(unit) for unit in units]
        known = self._measure(c for c in canonicals if c.op != "reshape")
        out: list[float] = []
        for unit, c in zip(units, canonicals, strict=True):
            if not legal(unit, self.target.family):
                out.append(math.inf)
            else:
                out.append(known[c] if c in known else estimate_cycles(unit, self.target))
        return out

    def _key(self, unit: Unit) -> str | None:
        """Returns the key of a unit's price, None if the unit is not measured."""
        if not unit.operands:
            return None
        operand = unit.operands[0]
        if (
            is_part(unit)
            or not (unit.is_moved or unit.op in _MEASURED | {"reshape"})
            or not (has_pad(operand) or DType.of(operand.dtype).is_wide)
        ):
            return None
        if unit.op in _POINTWISE and not (has_pad(operand) and has_pad(unit.result)):
            return None
        constants = tuple(c and c.digest for c in unit.constants)
        form = repr((unit.steps, unit.operands, unit.result, constants, unit.from_input)).encode()
        return hashlib.blake2b(form + self._context, digest_size=16).hexdigest()

    def _measure(self, units: Iterable[Unit]) -> dict[Unit, float]:
        """Returns {unit: cycles}, without units that are not measured or have no graph."""
        keys = {u: k for u in dict.fromkeys(units) if (k := self._key(u))}
        by_key = {k: u for u, k in keys.items()}
        unknown = self._find_unknown(by_key)
        found = measure([by_key[k] for k in unknown], self.target, self.pool)
        self._remember({k: c for k, c in zip(unknown, found, strict=True) if c is not None})
        return {u: self._known[k] for u, k in keys.items() if k in self._known}

    def _find_unknown(self, keys: Iterable[str]) -> list[str]:
        """Returns the keys that have no price here, nor on disk."""
        distinct = list(dict.fromkeys(keys))
        self._known.update(self.cache.get([k for k in distinct if k not in self._known]))
        return [k for k in distinct if k not in self._known]

    def _remember(self, measured: Mapping[str, float]) -> None:
        """Remembers measured prices here and on disk, there without refusals (inf): the next process asks again."""
        self.cache.put({k: v for k, v in measured.items() if v < math.inf})
        self._known.update(measured)

    @cached_property
    def _context(self) -> bytes:
        """All else that a price depends on: flags, Vela's version, our own code."""
        return repr((self.target.flags, vela_version(), _measuring())).encode()

    # ---- neighbours -------------------------------------------------------------------------------

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        found = fuses(reader, read, producers, self.target.family)
        if read.is_constant(0) and read.op == "rescale" and is_wide_sum(reader):
            return replace(found or Fusion(), of_reader=1 - self._narrow_constant_ratio(reader, read.result))
        return found

    def _narrow_constant_ratio(self, reader: Unit, constant: Type) -> float:
        """Returns the factor of a sum's price if its constant operand is INT8 and rescaled.

        The price itself is that of an INT32 constant, beside which no RESCALE fuses.
        With Vela 5.2 a sum of [1, 16, 16, 32] and [1, 1, 1, 32] has 0.375 on U55, 0.25 on U65, 0.196 on U85.
        """
        form = _Sum(reader.steps, reader.operands, constant)
        if form not in self._ratios:
            self._measure_ratios({form: reader})
        return self._ratios[form]

    def _measure_possible_ratios(self, units: Sequence[Unit]) -> None:
        """Measures all ratios that `fusion` may ask for at once."""
        constants = {u.result for u in units if u.is_constant(0) and u.op == "rescale"}
        forms = {
            _Sum(u.steps, u.operands, c): u
            for u in (units if constants else ())
            if is_wide_sum(u)
            for c in constants
            if any(t.elements == c.elements for t in u.operands)
        }
        self._measure_ratios({form: unit for form, unit in forms.items() if form not in self._ratios})

    def _measure_ratios(self, readers: Mapping[_Sum, Unit]) -> None:
        wide = {form: canonical(reader) for form, reader in readers.items()}
        pairs = {form: (unit, with_narrow_constant(unit, form.constant)) for form, unit in wide.items()}
        known = self._measure(unit for pair in pairs.values() for unit in pair)
        for form, pair in pairs.items():
            whole, narrow = (known.get(unit, math.inf) for unit in pair)
            measured = 0 < whole < math.inf and 0 < narrow < math.inf
            self._ratios[form] = narrow / whole if measured else 1.0


def _begins_with_view(price: Price) -> bool:
    return bool(price.steps) and price.steps[0][0] == "reshape"


def _flatten(t: Type) -> Unit:
    """Returns a view of a tensor as a row, or of a row as a column."""
    shape = (t.elements,) if len(t.shape) > 1 else (t.elements, 1)
    return Unit((("reshape", attrs_of({"shape": shape})),), (t,), replace(t, shape=shape))


def _with_copy(price: Price, unit: Unit, copies: Mapping[Type, float]) -> Price:
    """Returns the price with that of a copy: as the price itself for a SLICE, as `copied` for a view."""
    if is_part(unit) and price.cycles < math.inf:
        return replace(price, cycles=copies[unit.result])
    return replace(price, copied=copies.get(unit.operands[0])) if _begins_with_view(price) else price


@cache
def _measuring() -> str:
    """Returns a digest of the code that makes probes and reads the table: prices of other code have other keys."""
    pricing = ("blocks", "calibration", "command_stream", "commands", "estimator", "machine")
    ours = ("fusion", "measuring", "probes", "vela_groups", *pricing)
    others = (flatbuffer, makers, regor, rows)
    files = (*(Path(__file__).with_name(f"{name}.py") for name in ours), *(Path(str(m.__file__)) for m in others))
    return hashlib.blake2b(b"".join(f.read_bytes() for f in files), digest_size=8).hexdigest()
