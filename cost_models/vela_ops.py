"""The default model: what differs between alternatives measured by Vela in context, the rest estimated, fusion as pairwise terms.

Reorderings, concats, slices, pads, pools, reductions and multiply-accumulate ops (with the RESCALE that fuses into them) are
compiled between pads, CLAMPs with a second reader that cannot fuse with them, and only the rows that are not pads count: so a
unit sees the inner tensor formats, not those of graph inputs and outputs. Elementwise ops are the same in nearly all alternatives;
closed forms rank them well enough (output-path cycles per element and bytes per cycle of the family, facts measured on Vela 5.1).
The whole-graph total has the last word.
"""
from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

from cost_models.cache import PriceCache
from cost_models.protocol import Fusion, Price, Unit
from eqsat.ir import BYTES, OPS, GraphError, TensorGraph, Type, attrs_of
from eqsat.movement import Move
from eqsat.numerics import LIMITS
from eqsat.staging import Transposes, reordering, step_cycles, ways, written
from eqsat.target import Target
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.vela import compile_tosa
from eqsat.tosa.worker import Pool, WorkerError

#: Output-path cycles per element of an op that runs by itself: (add-like, other elementwise), by family.
_OUTPUT_PATH = {"u55": (1.5, 0.75), "u65": (1.5, 0.75), "u85": (0.25, 0.25)}
#: Cycles per element of a RESCALE, CLAMP, TABLE or copy that does not fuse (a 1x1 pool), by family.
_UNFUSED = {"u55": 1.0, "u65": 1.0, "u85": 0.6}
#: Bytes per cycle of the memory that holds activations.
_BANDWIDTH = {"u55": 8.0, "u65": 16.0, "u85": 32.0}
#: U55 and U65 transpose only these dtypes (executorch backends/arm, guards).
_U55_TRANSPOSABLE = ("INT8", "INT16", "BOOL")
#: A RESHAPE is free or a copy, depending on its surroundings; this small price breaks ties against it.
_RESHAPE_SHARE = 0.02
#: Cycles per element up to which a native transpose is expected to fuse into its producer on U85 without loss.
_FUSABLE_CYCLES = 1.5
_INT8_LIKE = ("INT8", "INT16")
_MAC = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "matmul", "avg_pool2d", "max_pool2d", "reduce_sum")
_ACTIVATION = ("clamp", "table")
_MEASURED = ("concat", "slice", "pad", "tile", "reverse", *_MAC, "reduce_max", "reduce_min")
_BINARY = ("add", "sub", "mul", "maximum", "minimum")


def legal_transpose(shape: tuple[int, ...], dtype: str, family: str) -> bool:
    """The guards on TRANSPOSE (executorch backends/arm): U55/U65 dtypes and the 65536 limit on the leading axes' product."""
    if dtype == "INT48":
        return False
    if family == "u85":
        return True
    return dtype in _U55_TRANSPOSABLE and math.prod(shape[:-2]) <= 65536


class VelaOps:
    """See the module's text. `pool`: Vela workers; `cache`: prices on disk."""

    def __init__(self, target: Target, pool: Pool, cache: PriceCache):
        self.target, self.pool, self.cache = target, pool, cache

    def price(self, units: Sequence[Unit]) -> list[Price]:
        moves = [None if u.move is None else (*reordering(u.move), u.result.dtype) for u in units]
        distinct = [m for m in dict.fromkeys(moves) if m is not None]
        best = dict(zip(distinct, self._chains(distinct), strict=True))
        others = iter(self._prices([u for u in units if u.move is None]))
        out = []
        for u, move in zip(units, moves, strict=True):
            if move is None:
                out.append(Price(next(others), u.steps))
            else:
                cycles, chain = best[move]
                out.append(Price(cycles, written(u.move, chain)))
        return out

    def _chains(self, moves: Sequence[tuple[tuple[int, ...], tuple[int, ...], str]]) -> list[tuple[float, Transposes]]:
        """The cheapest legal chain of each reordering, measured."""
        options = [[c for c in ways(sizes, perm, BYTES.get(dtype, 4), self.target.family)
                    if all(legal_transpose(shape, dtype, self.target.family) for shape, _ in c)] for sizes, perm, dtype in moves]
        units = []
        for (sizes, perm, dtype), chains in zip(moves, options, strict=True):
            m = Move.transpose(sizes, perm)
            units += [Unit(written(m, c), (Type(m.in_shape, dtype),), Type(m.out_shape, dtype)) for c in chains]
        prices = iter(self._prices(units))
        return [min(((next(prices), c) for c in chains), key=lambda pc: (pc[0], len(pc[1])), default=(math.inf, ())) for chains in options]

    def _prices(self, units: Sequence[Unit]) -> list[float]:
        probes: dict[str, tuple[bytes, frozenset[str]]] = {}
        keys: list[str | None] = []
        for u in units:
            found = self._probe_for(u)
            keys.append(found[0] if found else None)
            if found:
                probes[found[0]] = found[1:]
        known = self.cache.get(list(probes))
        missing = [k for k in probes if k not in known]
        measured = dict(zip(missing, self.pool.map(lambda k: self._measure(*probes[k]), missing), strict=True))
        self.cache.put({k: v for k, v in measured.items() if v < math.inf})
        known.update(measured)
        return [known[key] if key is not None else self._estimate(u) for u, key in zip(units, keys, strict=True)]

    def _probe_for(self, u: Unit) -> tuple[str, bytes, frozenset[str]] | None:
        """(cache key, flatbuffer, names of its pads) for a unit that is measured, None for one that is estimated."""
        moved = any(op == "transpose" for op, _ in u.steps)
        if not (moved or u.op in _MEASURED) or u.operands[0].dtype not in (*_INT8_LIKE, "INT32"):
            return None
        try:
            graph, pads = probe(u)
        except GraphError:
            return None
        buffer = dumps(graph)
        key = hashlib.blake2b(buffer + repr((self.target.flags, _versions())).encode(), digest_size=16).hexdigest()
        return key, buffer, pads

    def _measure(self, buffer: bytes, pads: frozenset[str]) -> float:
        try:
            rows = compile_tosa(buffer, self.target, self.pool, timeout=60).rows
        except WorkerError:
            return math.inf
        return float(sum(int(r["op_cycles"]) for r in rows if r["name"] not in pads))

    def _estimate(self, u: Unit) -> float:
        family, elements = self.target.family, u.result.elements
        if u.op == "transpose":                          # of a dtype that is not probed
            return u.result.elements if legal_transpose(u.operands[0].shape, u.result.dtype, family) else math.inf
        kind = OPS[u.op].kind
        moved = sum(t.bytes for t in (*u.operands, u.result)) / _BANDWIDTH[family]
        if kind == "leaf":
            return 0.0
        if u.op == "reshape":
            return 1.0 + _RESHAPE_SHARE * u.result.bytes
        if kind == "mac":
            weights = u.operands[1].bytes if len(u.operands) > 1 else 1
            return 1.0 + moved + elements * max(1.0, weights / max(1, u.result.shape[-1])) / 64
        if u.op in ("slice", "concat"):
            return 1.0 + 0.02 * elements
        if u.op in ("rescale", *_ACTIVATION):
            return 1.0 + max(_UNFUSED[family] * elements, moved)
        add, other = _OUTPUT_PATH[family]
        return 1.0 + max((add if u.op in ("add", "sub") else other) * elements, moved)

    def fusion(self, reader: Unit, read: Unit, behind: Sequence[Unit]) -> Fusion | None:
        arithmetic = read.op in _MAC or read.op in _BINARY
        if reader.op == "rescale" and arithmetic and reader.operands[0].dtype in ("INT32", "INT48"):
            return Fusion(of_reader=1.0)
        if reader.op in _BINARY and read.op == "rescale" and read.result.dtype == "INT32":
            return Fusion(of_read=1.0)
        fused_rescale = read.op == "rescale" and any(b.op in _MAC or b.op in _BINARY for b in behind)
        after_matmul = any(b.op == "matmul" for b in behind)     # measured: nothing but the RESCALE fuses into a MATMUL
        if reader.op in _ACTIVATION and (fused_rescale and not after_matmul or read.op in _MAC) and not _is_noop(reader):
            return Fusion(of_reader=1.0)
        if self.target.family == "u85" and reader.op == "transpose" and reader.steps and fused_rescale and any(b.op in _MAC for b in behind):
            perm, (_, h, w, c) = reader.attr("perms"), reader.operands[0].shape
            native = tuple(p - 1 for p in perm[1:])
            if step_cycles(h, w, c, native, 1, "u85") > _FUSABLE_CYCLES * h * w * c + 500:
                return None                              # deep or shallow shapes: fused it costs many times as much as by itself
            # the types that swap H and W double the output path's work, the others are free (measured on Vela 5.1)
            return Fusion(of_reader=1.0 if perm in ((0, 1, 3, 2), (0, 3, 1, 2)) else 0.5)
        return None


def _is_noop(u: Unit) -> bool:
    """A CLAMP to the dtype's limits. Vela's U55/U65 estimate falls when one follows a convolution, hardware does not get
    faster: it keeps its full price, so that its removal always wins (measured on Vela 5.1)."""
    if u.op != "clamp" or u.result.dtype not in LIMITS:
        return False
    size = BYTES[u.result.dtype]
    lo, hi = (v.to_bytes(size, "little", signed=True) for v in LIMITS[u.result.dtype])
    return (u.attr("min_val"), u.attr("max_val")) == (lo, hi)


@cache
def _versions() -> str:
    return f"vela {version('ethos-u-vela')}"


#: Appended to a multiply-accumulate op in its probe: the RESCALE that Vela fuses into it.
_NARROWING = attrs_of({"multiplier": (1 << 30,), "shift": (38,), "in_zp": (0,), "out_zp": (0,), "dtype": "INT8", "scale32": True,
                       "rounding_mode": 1, "per_channel": False, "input_unsigned": False, "output_unsigned": False})


def probe(u: Unit) -> tuple[TensorGraph, frozenset[str]]:
    """The unit between pads, and the pads' tensor names. Units on dtypes without CLAMP (INT32, BOOL) go bare."""
    g = TensorGraph()
    limits = {"INT8": (-128, 127, 1), "INT16": (-(2**15), 2**15 - 1, 2)}
    steps = (*u.steps, ("rescale", _NARROWING)) if u.op in _MAC and u.operands[0].dtype == "INT8" and u.result.dtype == "INT32" else u.steps
    result = "INT8" if steps is not u.steps else u.result.dtype
    narrow = result in limits and u.operands[0].dtype in limits
    pads: list[int] = []

    def pad(x: int, cut: int) -> int:
        lo, hi, size = limits[g.nodes[x].dtype]
        bounds = {"min_val": lo.to_bytes(size, "little", signed=True), "max_val": (hi - cut).to_bytes(size, "little", signed=True)}
        pads.append(g.add_with("clamp", [x], attrs_of({**bounds, "nan_mode": 1})))
        return pads[-1]

    operands, seconds = [], []
    for k, t in enumerate(u.operands):
        if k < len(u.constants) and u.constants[k] is not None:
            operands.append(g.add_const(u.constants[k].data, t.dtype, t.shape))
        else:
            operands.append(g.add_input(f"in{k}", t.shape, t.dtype))
            if narrow:
                operands[-1] = pad(operands[-1], 1)
                seconds.append(pad(operands[-1], 2))
    for op, attrs in steps:
        operands = [g.add_with(op, operands, attrs)]
    g.outputs = [pad(operands[0], 1), pad(operands[0], 2), *seconds] if narrow else [operands[0]]
    g.output_names = [f"out{i}" for i in range(len(g.outputs))]
    slots = dict(zip(g.outputs, g.output_names, strict=True))
    return g, frozenset(slots.get(n, f"n{n}") for n in pads)
