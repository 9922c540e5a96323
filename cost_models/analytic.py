"""Closed forms of Vela's estimate (`estimator.py`): no Vela at run time, so an unseen op costs microseconds.

Of a concrete graph it also sees what Vela fuses: RESCALEs, activations, the copies that CONCAT and RESHAPE need.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, prod

import numpy as np

from cost_models import estimator
from cost_models.fusion import ACTIVATIONS, fuses, is_noop
from cost_models.node_model import NodeModel, units_of
from cost_models.protocol import Fusion, Traffic, Unit
from eqsat.ir import BYTES, OPS, TensorGraph, Type

#: A RESHAPE is free or a copy, depending on its surroundings; this small price breaks ties against it.
_RESHAPE_SHARE = 0.02


#: Cycles per element of the RESCALE behind a TRANSPOSE_CONV2D, which does not fuse (measured on Vela 5.1).
_UNFUSED_RESCALE = 2.0


def spatial(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """A shape as (h, w, c): leading axes count as height."""
    shape = (1, 1, 1, *shape)
    return prod(shape[:-2]), shape[-2], shape[-1]


class Analytic(NodeModel):
    """See the module's text."""

    def cycles(self, unit: Unit) -> float:
        stored = any(c is not None and bool(np.ptp(c.data)) for c in unit.constants)
        return 1.0 + _standalone(self.target, unit, None, stored)

    def traffic(self, unit: Unit) -> Traffic:
        constants = sum(t.bytes for k, t in enumerate(unit.operands) if unit.is_constant(k))
        return Traffic(sum(t.bytes for t in unit.operands) - constants + unit.result.bytes, constants)

    def fusion(self, reader: Unit, read: Unit, behind: Sequence[Unit]) -> Fusion | None:
        return fuses(reader, read, behind, self.target.family)

    def total(self, graph: TensorGraph) -> float:
        return sum(self.by_node(graph).values())

    def by_node(self, graph: TensorGraph) -> dict[int, float]:
        """Cycles of every op of a concrete graph; what is fused into another op has none."""
        units, readers = units_of(graph), graph.readers()
        absorbed, activated = self._fused(graph, units, readers)
        # constants, and views of them that Vela folds; true: not the same value everywhere
        fixed = {n: bool(np.ptp(graph.nodes[n].attr("value").data)) for n in readers if graph.nodes[n].op == "const"}
        out = {}
        for n, u in units.items():
            inputs = graph.nodes[n].inputs
            if u.op in ("rescale", "reshape", "transpose") and all(i in fixed for i in inputs):
                fixed[n] = any(fixed[i] for i in inputs)
                out[n] = 0.0
            elif n in absorbed:
                out[n] = 0.0
            elif u.op == "reshape":
                out[n] = _copy(self.target, u.result) if len(readers[inputs[0]]) > 1 else 0.0
            elif u.op == "concat":
                out[n] = sum(_part(self.target, graph.type(i)) for i in inputs if not self._in_place(graph, units, readers, i))
            elif u.op == "slice":
                views = {graph.nodes[r].op for r in readers[n]} & {"reshape", "transpose", "concat", "matmul"}
                out[n] = _part(self.target, u.result) if views or not readers[n] else 0.0
            else:
                stored = any(fixed.get(i, False) for i in inputs)
                out[n] = _standalone(self.target, u, activated.get(n), stored)
        return out

    @staticmethod
    def _in_place(graph: TensorGraph, units, readers, i: int) -> bool:
        """Whether the producer of `i` can write its part of a concat itself."""
        while i in units and units[i].op in ("rescale", *ACTIVATIONS, "reshape") and len(readers[i]) == 1:
            i = graph.nodes[i].inputs[0]
        return i in units and len(readers[i]) == 1 and units[i].op not in ("concat", "slice", "transpose", "reshape")

    def _fused(self, graph: TensorGraph, units: dict[int, Unit], readers: dict[int, list[int]]) -> tuple[set[int], dict[int, str]]:
        """Ops that cost nothing, and the activation ("clamp" or "table") that a multiply-accumulate op or a sum carries."""
        absorbed: set[int] = set()
        activated: dict[int, str] = {}
        for n, u in units.items():
            sources = [i for i in graph.nodes[n].inputs if i in units]
            if u.op == "reduce_sum":                     # it takes the operand's scale itself
                absorbed.update(i for i in (self._behind_views(graph, units, readers, i) for i in sources)
                                if i in units and units[i].op == "rescale" and len(readers[i]) == 1 and units[i].result.dtype == "INT32")
            if u.op in ("add", "sub", "mul", "maximum", "minimum"):
                scales = [units[i] for i in sources if units[i].op == "rescale"]
                if self.target.family == "u85" or u.op not in ("add", "sub") or _fusable(scales):
                    absorbed.update(i for i in sources if units[i].op == "rescale" and units[i].result.dtype == "INT32")
            for i in (self._behind_views(graph, units, readers, i) for i in sources[:1]):
                head = self._behind_views(graph, units, readers, graph.nodes[i].inputs[0]) if graph.nodes[i].inputs else i
                term = fuses(u, units[i], [units[head]] if head in units else [], self.target.family) if i in units else None
                if term is None or term.of_reader < 1 or len(readers[i]) > 1 or is_noop(u):
                    continue
                absorbed.add(n)
                if u.op in ACTIVATIONS:
                    activated[head if units[i].op == "rescale" else i] = u.op
        return absorbed, activated

    @staticmethod
    def _behind_views(graph: TensorGraph, units, readers, i: int) -> int:
        """The producer of `i` behind reshapes that only one op reads."""
        while i in units and units[i].op == "reshape" and len(readers[i]) == 1:
            i = graph.nodes[i].inputs[0]
        return i


def _fusable(scales: Sequence[Unit]) -> bool:
    """U55/U65 sums take their operands' scales if both are one, or if they differ and the larger is 2^19 or 2^14."""
    values = [s.attr("multiplier")[0] / 2.0 ** s.attr("shift")[0] for s in scales]
    return bool(values) and (all(v == 1 for v in values) or len(set(values)) > 1 and max(values) in (2.0**19, 2.0**14))


def _copy(target, t: Type) -> float:
    return _pooled(target, _dense(t.elements), 1, BYTES.get(t.dtype, 4), None)


def _part(target, t: Type) -> float:
    """A copy into or out of a larger tensor, which keeps its shape."""
    return _pooled(target, spatial(t.shape), 1, BYTES.get(t.dtype, 4), None)


@lru_cache(maxsize=65536)
def _pooled(target, out, taps, size, path) -> float:
    return estimator.pool(estimator.machine(target), out, taps, size, path)


@lru_cache(maxsize=65536)
def _mac(target, out, depth, kernel, depthwise, weights, size, path) -> float:
    return estimator.mac(estimator.machine(target), out, depth, kernel, depthwise=depthwise, weights=weights, element_bytes=size, path=path)


def _standalone(target, u: Unit, activation: str | None, stored: bool) -> float:
    """Cycles of one op with the RESCALE and activation that fuse into it. stored: an operand of an elementwise op is constant."""
    m = estimator.machine(target)
    core = m.core
    path = core.byte if activation == "clamp" and m.family != "u85" else None
    size = BYTES.get(u.operands[0].dtype, 4) if u.operands else 1
    out = spatial(u.result.shape)
    kind = OPS[u.op].kind
    if kind == "leaf":
        return 0.0
    if u.op == "reshape":
        return _RESHAPE_SHARE * u.result.bytes
    if u.op == "transpose":
        return _transpose(target, u.operands[0], u.attr("perms"), size)
    if u.op in ("conv2d", "transpose_conv2d"):
        oc, kh, kw, c = u.operands[1].shape
        parts = _parts(u)
        out = (1, ceil(out[0] * out[1] / parts), oc) if parts > 1 else out
        step = 32 if kh * kw == 1 else 8                 # channels that are encoded together
        weights = oc * kh * kw * ceil(c / step) * step
        rescaled = _UNFUSED_RESCALE * u.result.elements if u.op == "transpose_conv2d" else 0.0
        return rescaled + parts * _mac(target, out, c, (kh, kw), False, weights, size, path)
    if u.op == "depthwise_conv2d":
        kh, kw, c, _ = u.operands[1].shape               # of one channel: an ordinary convolution
        return _mac(target, out, c, (kh, kw), c > 1, u.operands[1].bytes, size, path)
    if u.op == "matmul":
        n, rows, c = u.operands[0].shape
        columns = u.result.shape[-1]
        if m.family == "u85":
            return n * _mac(target, (1, rows, columns), c, (1, 1), False, 0, size, path)
        product = estimator.elementwise(m, (n, rows, c), core.mul if size == 1 else core.wide, n * rows * c * 6)
        return columns * (product + _mac(target, (n, rows, 1), c, (1, 1), False, 0, 4, path))
    if u.op in ("avg_pool2d", "max_pool2d"):
        return _pooled(target, out, prod(u.attr("kernel")), size, path)
    if u.op.startswith("reduce_"):
        return _reduce(target, u, size)
    if u.op == "concat":
        return 0.02 * u.result.elements
    if u.op == "slice":
        return 0.02 * u.result.elements
    if u.op in ("rescale", "clamp", "table", "identity"):
        return _pooled(target, _dense(u.result.elements), 1, size, path)
    if u.op in ("pad", "tile", "reverse"):
        return _pooled(target, out, 1, size, path)
    if len(u.operands) >= 2:
        wide = core.add if u.op in ("add", "sub") else core.mul
        path = max(core.wide if u.operands[-1].dtype == "INT32" and u.op not in ("add", "sub", "mul") else wide, 0 if path else core.plain)
        return estimator.elementwise(m, out, path, sum(t.elements for t in (*u.operands, u.result)), stored)
    return estimator.elementwise(m, out, max(core.byte, core.plain), 2 * u.result.bytes)


def _parts(u: Unit) -> int:
    """The convolutions that Vela makes of one: strides above 3 go output by output, dilations above 2 phase by phase."""
    if u.op == "transpose_conv2d":
        return 1
    n, h, w, _ = u.result.shape
    strided = h * w if max(u.attr("stride")) > 3 else 1
    return strided * prod(d if d > 2 else 1 for d in u.attr("dilation"))


def _dense(elements: int) -> tuple[int, int, int]:
    """The shape in which Vela runs an op without axes: full micro blocks."""
    return 1, ceil(elements / 64), min(elements, 64)


#: Cycles per element of a REDUCE_SUM over an axis that is not the last (or has single elements behind it), measured on Vela 5.1.
_ACROSS = {"u55": 0.6, "u65": 0.4, "u85": 0.7}


def _reduce(target, u: Unit, size: int) -> float:
    shape, axis = u.operands[0].shape, u.attr("axis")
    rows, n = u.operands[0].elements // shape[axis], shape[axis]
    if u.op != "reduce_sum":
        return _pooled(target, (rows, 1, 1), n, size, None)
    if axis != len(shape) - 1 and n > 1:
        return 100 + _ACROSS[target.family] * u.operands[0].elements
    return _mac(target, (rows, 1, 1), n, (1, 1), False, 0, size, None)


@lru_cache(maxsize=65536)
def _transpose(target, t: Type, perm: tuple[int, ...], size: int) -> float:
    """A native transpose, or the swaps of axes that Vela decomposes any other into."""
    m = estimator.machine(target)
    if len(perm) <= 4 and prod(t.shape[:-3]) == 1 and perm[:-3] == tuple(range(len(perm) - 3)):
        shape, last = spatial(t.shape), tuple(p - len(perm) + 3 for p in (-1, -1, *perm)[-3:])
        if len(perm) >= 3 and (m.family == "u85" or last in ((0, 2, 1), (1, 0, 2), (2, 1, 0))):
            return estimator.transpose(m, shape, last, size)
    axes = [a for a in range(len(perm)) if t.shape[a] > 1]
    order = [p for p in perm if t.shape[p] > 1]
    groups: list[list[int]] = []
    for p in order:                                      # axes that stay neighbours are one
        if groups and axes.index(p) == axes.index(groups[-1][-1]) + 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    if len(groups) <= 1:
        return 0.0
    sources = sorted(range(len(groups)), key=lambda g: groups[g][0])
    sizes = tuple(prod(t.shape[a] for a in groups[g]) for g in sources)
    native = tuple(sources.index(g) for g in range(len(groups)))
    if len(sizes) == 2:
        return min(estimator.transpose(m, (1, *sizes), (0, 2, 1), size), estimator.transpose(m, (*sizes, 1), (1, 0, 2), size))
    if len(sizes) == 3 and (m.family == "u85" or native in ((0, 2, 1), (1, 0, 2), (2, 1, 0))):
        return estimator.transpose(m, sizes, native, size)
    swaps = sum(i != p for i, p in enumerate(native)) - 1
    return 2 * swaps * estimator.transpose(m, (prod(sizes[:-2]), *sizes[-2:]), (1, 0, 2), size)
