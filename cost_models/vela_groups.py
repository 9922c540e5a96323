"""The default model: fused groups measured by Vela in context, remembered on disk; what fuses between units as pairwise terms.

A unit is compiled between pads, CLAMPs with a second reader that cannot fuse with them, and only the rows that are not pads
count: so it sees the inner tensor formats, not those of graph inputs and outputs (a movement that reads an input is measured on
an input). Multiply-accumulate ops carry the RESCALE that fuses into them, sums, products and REDUCE_SUMs the RESCALEs before and behind, so
that their own price is that of the fused group, and the pairwise terms take the RESCALEs' prices off. Scales, zero points, tables
and the values of summands do not change what an op costs by itself: units that differ in nothing else share a price. Units whose
ends have no pad (INT32, BOOL) are estimated by a closed form.

A whole graph is cut into its real groups, each measured with its real neighbours (`windows.py`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version

import numpy as np

from cost_models.cache import PriceCache
from cost_models.fusion import ACTIVATIONS, MACS, SUMS, fuses, is_noop, is_times_one
from cost_models.legality import legal, legal_transpose
from cost_models.protocol import Fusion, Granularity, Price, Unit
from cost_models.windows import Windows, add_pad, group_cycles
from eqsat.target import Target
from eqsat.target.staging import Transposes, reordering, ways, written
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const, GraphError, Type, attrs_of
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.workers.worker import Pool, WorkerError

_MEASURED = (
    "concat",
    "slice",
    "pad",
    "tile",
    "reverse",
    *MACS,
    "reduce_max",
    "reduce_min",
    "rescale",
    *ACTIVATIONS,
    *SUMS,
)


class VelaGroups:
    """See the module's text. `pool`: Vela workers; `cache`: prices on disk."""

    granularity: Granularity = "group"
    in_cycles: bool = True

    def __init__(self, target: Target, pool: Pool, cache: PriceCache):
        self.target, self.pool, self.cache = target, pool, cache
        self._known: dict[str, float] = {}
        self._ratios: dict[tuple, float] = {}

    def price(self, units: Sequence[Unit]) -> list[Price]:
        moves = [None if u.move is None else (*reordering(u.move), u.result.dtype, u.from_input) for u in units]
        distinct = [m for m in dict.fromkeys(moves) if m is not None]
        best = dict(zip(distinct, self._chains(distinct), strict=True))
        others = iter(self._prices([u for u in units if u.move is None]))
        out: list[Price] = []
        for u, move in zip(units, moves, strict=True):
            if move is None:
                out.append(Price(next(others), u.steps))
            else:
                cycles, chain = best[move]
                out.append(Price(cycles, written(u.move, chain)))
        viewing = [bool(p.steps) and p.steps[0][0] == "reshape" for p in out]
        firsts = [
            Unit(p.steps[:1], u.operands, replace(u.result, shape=dict(p.steps[0][1])["shape"]))
            for u, p, v in zip(units, out, viewing)
            if v
        ]
        copies = self._copies({u.operands[0]: u for u in firsts if u.operands[0] != u.result})
        return [
            replace(p, copied=copies.get(u.operands[0])) if v else p
            for u, p, v in zip(units, out, viewing, strict=True)
        ]

    def _chains(
        self, moves: Sequence[tuple[tuple[int, ...], tuple[int, ...], str, bool]]
    ) -> list[tuple[float, Transposes]]:
        """The cheapest legal chain of each reordering, measured."""
        options = [
            [
                c
                for c in ways(sizes, perm, DType.of(dtype).size, self.target.family)
                if all(legal_transpose(shape, dtype, self.target.family) for shape, _ in c)
            ]
            for sizes, perm, dtype, _ in moves
        ]
        units = []
        for (sizes, perm, dtype, from_input), chains in zip(moves, options, strict=True):
            m = Move.transpose(sizes, perm)
            units += [
                Unit(written(m, c), (Type(m.in_shape, dtype),), Type(m.out_shape, dtype), from_input=from_input)
                for c in chains
            ]
        prices = iter(self._prices(units))
        return [
            min(((next(prices), c) for c in chains), key=lambda pc: (pc[0], len(pc[1])), default=(math.inf, ()))
            for chains in options
        ]

    def _copies(self, views: Mapping[Type, Unit]) -> dict[Type, float]:
        """Cycles of the copy that one of the views on each type is where its operand has another reader: in the probe it has one."""
        probes = {t: self._probe_for(u) for t, u in views.items()}
        by_key = {p[0]: p[1:] for p in probes.values() if p}
        known = self._recall(list(by_key), lambda k: self._measure(*by_key[k]))
        return {t: known[p[0]] if p else self._copy(views[t]) for t, p in probes.items()}

    def _prices(self, units: Sequence[Unit]) -> list[float]:
        probes: dict[str, tuple[bytes, frozenset[str]]] = {}
        keys: list[str | None] = []
        seen: dict[Unit, str | None] = {}
        for u in units:
            plain = canonical(u)
            if plain not in seen:
                found = None if plain.op == "reshape" else self._probe_for(plain)
                seen[plain] = found[0] if found else None
                if found:
                    probes[found[0]] = found[1:]
            keys.append(seen[plain])
        known = self._recall(list(probes), lambda k: self._measure(*probes[k]))
        return [
            math.inf if not legal(u, self.target.family) else known[key] if key is not None else self._estimate(u)
            for u, key in zip(units, keys, strict=True)
        ]

    def _recall(self, keys: Sequence[str], measure) -> dict[str, float]:
        """Prices by key: remembered here, on disk, or measured by the pool; what Vela refuses is asked again in the next process."""
        self._known.update(self.cache.get([k for k in keys if k not in self._known]))
        missing = [k for k in dict.fromkeys(keys) if k not in self._known]
        measured = dict(zip(missing, self.pool.map(measure, missing), strict=True))
        self.cache.put({k: v for k, v in measured.items() if v < math.inf})
        self._known.update(measured)
        return {k: self._known[k] for k in keys}

    def _probe_for(self, u: Unit) -> tuple[str, bytes, frozenset[str]] | None:
        """(cache key, flatbuffer, names of its pads) for a unit that is measured, None for one that is estimated."""
        moved = any(op == "transpose" for op, _ in u.steps)
        if not (moved or u.op in (*_MEASURED, "reshape")) or not (
            _is_activation(u.operands[0]) or u.operands[0].dtype == "INT32"
        ):
            return None
        if u.op in ("rescale", *ACTIVATIONS) and not (_is_activation(u.operands[0]) and _is_activation(u.result)):
            return None
        try:
            graph, pads = probe(u)
        except GraphError:
            return None
        buffer = dumps(graph)
        viewed = moved and u.steps[0][0] == "reshape" and not u.from_input
        if viewed:  # the copy that the second reader causes is charged where there is one
            pads |= {f"{p}_copy" for p in pads}
        key = hashlib.blake2b(buffer + self._context() + b"viewed" * viewed, digest_size=16).hexdigest()
        return key, buffer, pads

    def _context(self) -> bytes:
        """What else a price depends on."""
        return repr((self.target.flags, _versions())).encode()

    def _measure(self, buffer: bytes, pads: frozenset[str]) -> float:
        try:
            rows = compile_tosa(buffer, self.target, self.pool, timeout=60).rows
        except WorkerError:
            return math.inf
        return float(sum(int(r["op_cycles"]) for r in rows if r["name"] not in pads))

    def total(self, graph: TensorGraph) -> float:
        """The sum of the graph's fused groups, each measured with its neighbours."""
        windows = Windows(graph, self.target.family)
        context = hashlib.blake2b(self._context(), digest_size=8).hexdigest()
        by_key = {f"{w.key}-{context}": w for w in windows.all}

        def measure(key: str) -> float:
            buffer, names = windows.probe(by_key[key])
            try:
                return group_cycles(compile_tosa(buffer, self.target, self.pool, timeout=60).rows, names)
            except WorkerError:
                return math.inf

        known = self._recall(list(by_key), measure)
        return sum(known[f"{w.key}-{context}"] for w in windows.all)

    def _estimate(self, u: Unit) -> float:
        elements = u.result.elements
        if u.op == "transpose":  # of a dtype that is not probed
            return u.result.elements
        kind = OPS[u.op].kind
        moved = sum(t.bytes for t in (*u.operands, u.result)) / self.target.family.bandwidth
        if kind == "leaf":
            return 0.0
        if u.op == "reshape":
            return 1.0  # nothing by itself, but better not there
        if kind == "mac":
            weights = u.operands[1].bytes if len(u.operands) > 1 else 1
            return 1.0 + moved + elements * max(1.0, weights / max(1, u.result.shape[-1])) / 64
        if u.op in ("slice", "concat"):
            return 1.0 + 0.02 * elements
        if u.op in ("rescale", *ACTIVATIONS):
            return self._copy(u)
        path = self.target.core.add if u.op in ("add", "sub") else self.target.core.mul
        return 1.0 + max(path * elements, moved)

    def _copy(self, u: Unit) -> float:
        """Cycles of what runs as a 1x1 pool over the result."""
        moved = (u.operands[0].bytes + u.result.bytes) / self.target.family.bandwidth
        return 1.0 + max(self.target.family.copy * u.result.elements, moved)

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        found = fuses(reader, read, producers, self.target.family)
        if _is_wide_sum(reader) and read.op == "rescale" and read.is_constant(0):
            return replace(found or Fusion(), of_reader=1 - self._narrow_constant_ratio(reader, read.result))
        return found

    def _narrow_constant_ratio(self, reader: Unit, t: Type) -> float:
        """Cycles of a sum whose constant operand is INT8 behind a RESCALE, over those with an INT32 constant, which its price has: beside
        INT32 no RESCALE fuses, but INT8 is read slowly from flash (measured on Vela 5.1: 0.25 on U85, 2 on U55)."""
        form = (reader.steps, reader.operands, t)
        if form not in self._ratios:
            wide = canonical(reader)
            narrow = replace(
                wide,
                constants=tuple(
                    _placeholder(t, "INT8") if operand == t else k for operand, k in zip(wide.operands, wide.constants)
                ),
            )
            costs = [
                self._recall([f[0]], lambda _, f=f: self._measure(*f[1:]))[f[0]]
                for u in (wide, narrow)
                if (f := self._probe_for(u))
            ]
            self._ratios[form] = (
                costs[1] / costs[0] if len(costs) == 2 and all(0 < c < math.inf for c in costs) else 1.0
            )
        return self._ratios[form]


@cache
def _versions() -> str:
    return f"vela {version('ethos-u-vela')}"


#: The RESCALEs in a probe: to INT8 behind sums (Vela fuses it), to INT32 before them (times one, which fuses on every target).
_NARROWING, _WIDENING = makers.rescale("INT8", shift=38), makers.rescale("INT32")
#: The RESCALE that fuses into a multiply-accumulate op, by the dtypes of its operand and of its sums. Of INT48 TOSA has 16-bit multipliers only.
_MAC_NARROWING = {("INT8", "INT32"): _NARROWING, ("INT16", "INT48"): makers.rescale("INT16", shift=30, scale32=False)}


def canonical(u: Unit) -> Unit:
    """The unit that stands for all of its price: numbers that do not change the cost of a pointwise op are put away."""
    if len(u.steps) != 1 or u.op not in ("rescale", *ACTIVATIONS, *SUMS) or is_noop(u):
        return u
    attrs = dict(u.steps[0][1])
    if u.op == "rescale":
        if is_times_one(u):
            return u  # Vela removes it
        channels = len(attrs["multiplier"])
        attrs |= {"multiplier": (1518500250,) * channels, "shift": (31,) * channels, "in_zp": (0,), "out_zp": (0,)}
    elif u.op == "table":
        attrs["table"] = tuple(range(len(attrs["table"])))
    elif u.op == "clamp":
        dtype = DType.of(u.result.dtype)
        attrs |= {"min_val": dtype.to_bytes(0), "max_val": dtype.to_bytes(99)}
    constants = (
        tuple(_placeholder(t, t.dtype) if u.is_constant(k) else None for k, t in enumerate(u.operands))
        if u.op in SUMS
        else ()
    )
    return Unit(((u.op, attrs_of(attrs)),), u.operands, u.result, constants)


def _is_activation(t: Type) -> bool:
    return DType.of(t.dtype).is_activation


def _placeholder(t: Type, dtype: str) -> Const:
    return Const((np.arange(t.elements).reshape(t.shape) % 90 + 1).astype(DType.of(dtype).storage), dtype)


def _is_wide_sum(u: Unit) -> bool:
    return u.op in SUMS and all(t.dtype == "INT32" for t in (*u.operands, u.result))


def probe(u: Unit) -> tuple[TensorGraph, frozenset[str]]:
    """The unit between pads, and the pads' tensor names. Units on dtypes without CLAMP go bare; sums, products and REDUCE_SUMs of INT32
    between RESCALEs."""
    g = TensorGraph()
    wide = _is_wide_sum(u) or u.op == "reduce_sum" and u.operands[0].dtype == "INT32"
    narrowing = (
        _NARROWING if wide else _MAC_NARROWING.get((u.operands[0].dtype, u.result.dtype)) if u.op in MACS else None
    )
    steps = u.steps if narrowing is None else (*u.steps, ("rescale", narrowing))
    result = u.result.dtype if narrowing is None else dict(narrowing)["dtype"]
    narrow = DType.of(result).is_activation and (wide or _is_activation(u.operands[0]))
    pads: list[int] = []

    def pad(x: int, cut: int) -> int:
        pads.append(add_pad(g, x, cut))
        return pads[-1]

    operands, seconds = [], []
    for k, t in enumerate(u.operands):
        if u.is_constant(k):
            data = u.constants[k].data
            narrow_constant = wide and data.dtype == DType.of("INT8").storage
            operands.append(g.add_const(data, "INT8" if narrow_constant else t.dtype, t.shape))
            if narrow_constant:
                operands[-1] = g.add_with("rescale", [operands[-1]], _WIDENING)
            continue
        operands.append(g.add_input(f"in{k}", t.shape, "INT8" if wide else t.dtype))
        if narrow and not u.from_input:
            operands[-1] = pad(operands[-1], 1)
            seconds.append(pad(operands[-1], 2))
        if wide:
            operands[-1] = g.add_with("rescale", [operands[-1]], _WIDENING)
    for op, attrs in steps:
        operands = [g.add_with(op, operands, attrs)]
    g.outputs = [pad(operands[0], 1), pad(operands[0], 2), *seconds] if narrow else [operands[0]]
    g.output_names = [f"out{i}" for i in range(len(g.outputs))]
    slots = dict(zip(g.outputs, g.output_names, strict=True))
    return g, frozenset(slots.get(n, f"n{n}") for n in pads)
