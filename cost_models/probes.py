"""A unit as a graph of its own for Vela: between pads, with the RESCALEs that fuse into it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.fusion import MACS, SUMS, is_noop, is_times_one
from cost_models.protocol import Unit
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, Const, DType, Type, attrs_of
from eqsat.vela import rows
from eqsat.vela.patterns import ACTIVATIONS


def has_pad(tensor: Type) -> bool:
    """Whether a tensor can be cut: CLAMP takes its dtype."""
    return DType.of(tensor.dtype).is_activation


def add_pad(graph: TensorGraph, x: int, cut: int) -> int:
    """Adds a CLAMP that Vela cannot recognise as a no-op, and returns its node.

    cut: subtracted from the dtype's limit; it makes two pads of one tensor differ.
    """
    dtype = graph.nodes[x].dtype
    return graph.add_with("clamp", [x], makers.clamp(dtype, high=DType.of(dtype).limits[1] - cut))


#: The dtype of the operands of a sum in a probe.
_NARROW = "INT8"
#: The dtype of the sums in a probe.
_WIDE = DType.of(_NARROW).accumulator
#: The RESCALE after sums in a probe, which Vela fuses.
_NARROWING = makers.rescale(_NARROW, shift=38)
#: The RESCALE before sums in a probe: times one, which fuses on every target.
_WIDENING = makers.rescale(_WIDE)


def _mac_narrowing(operand: DType) -> Attrs:
    """Returns the RESCALE from sums to the operand's dtype that fuses; for INT48 TOSA has 16-bit multipliers only."""
    scale32 = DType.of(operand.accumulator).bits <= 32
    return makers.rescale(operand.name, shift=(30 if scale32 else 14) + operand.bits, scale32=scale32)


def canonical(unit: Unit) -> Unit:
    """Returns the unit that stands for all units of its price.

    Numbers that do not change the cost of a pointwise op are replaced by fixed ones.
    """
    if len(unit.steps) != 1 or unit.op not in ("rescale", *ACTIVATIONS, *SUMS) or is_noop(unit):
        return unit
    attrs = dict(unit.steps[0][1])
    if unit.op == "rescale":
        if is_times_one(unit):
            return unit  # Vela removes it
        channels = len(attrs["multiplier"])
        attrs |= {"multiplier": (1518500250,) * channels, "shift": (31,) * channels, "in_zp": (0,), "out_zp": (0,)}
    elif unit.op == "table":
        attrs["table"] = tuple(range(len(attrs["table"])))
    elif unit.op == "clamp":
        dtype = DType.of(unit.result.dtype)
        attrs |= {"min_val": dtype.to_bytes(0), "max_val": dtype.to_bytes(99)}
    constants = (
        tuple(_placeholder(t, t.dtype) if unit.is_constant(k) else None for k, t in enumerate(unit.operands))
        if unit.op in SUMS
        else ()
    )
    return Unit(((unit.op, attrs_of(attrs)),), unit.operands, unit.result, constants)


def with_narrow_constant(unit: Unit, constant: Type) -> Unit:
    """Returns a sum with its constant operand in INT8, before a RESCALE to INT32, which the probe adds.

    constant: the type of the constant; operands with as many elements are replaced.
    """
    constants = (
        _placeholder(t, _NARROW) if t.elements == constant.elements else k
        for t, k in zip(unit.operands, unit.constants)
    )
    return replace(unit, constants=tuple(constants))


def _placeholder(t: Type, dtype: str) -> Const:
    return Const((np.arange(t.elements).reshape(t.shape) % 90 + 1).astype(DType.of(dtype).storage), dtype)


def is_wide_sum(unit: Unit) -> bool:
    """Whether it is a sum of INT32 operands, which quantized networks have between RESCALEs."""
    return unit.op in SUMS and all(DType.of(t.dtype).is_wide for t in (*unit.operands, unit.result))


def probe(unit: Unit) -> tuple[TensorGraph, frozenset[str]]:
    """Returns the unit between pads as a graph, and the names of the pads' tensors.

    A unit on dtypes without CLAMP has no pads.
    Sums, products and REDUCE_SUMs of INT32 are between RESCALEs.
    Raises GraphError if there is no such graph.
    """
    return _Probe(unit).build()


class _Probe:
    """A probe under construction.

    wide     : whether the operands are INT8 and widened
    narrowing: the RESCALE of the result, None if it takes none
    padded   : whether the ends have pads
    """

    def __init__(self, unit: Unit):
        self.unit, self.graph = unit, TensorGraph()
        operand = unit.operands[0]
        self.wide = is_wide_sum(unit) or unit.op == "reduce_sum" and DType.of(operand.dtype).is_wide
        sums = has_pad(operand) and unit.result.dtype == DType.of(operand.dtype).accumulator
        self.narrowing = _mac_narrowing(DType.of(operand.dtype)) if sums and unit.op in MACS else None
        if self.wide:
            self.narrowing = _NARROWING
        result = unit.result if self.narrowing is None else replace(unit.result, dtype=dict(self.narrowing)["dtype"])
        self.padded = has_pad(result) and (self.wide or has_pad(operand))
        self._pads: list[int] = []
        self._second_pads: list[int] = []

    def build(self) -> tuple[TensorGraph, frozenset[str]]:
        graph, unit = self.graph, self.unit
        x = [self._operand(k, t) for k, t in enumerate(unit.operands)]
        for op, attrs in unit.steps:
            x = [rows.write(graph, op, x, attrs)]
        if self.narrowing is not None:
            x = [graph.add_with("rescale", x, self.narrowing)]
        graph.outputs = [self._pad(x[0], 1), self._pad(x[0], 2), *self._second_pads] if self.padded else x
        graph.output_names = [f"out{i}" for i in range(len(graph.outputs))]
        names = dict(zip(graph.outputs, graph.output_names, strict=True))
        return graph, frozenset(names.get(n, f"n{n}") for n in self._pads)

    def _operand(self, k: int, t: Type) -> int:
        value = self.unit.constants[k] if k < len(self.unit.constants) else None
        if value is not None:
            return self._constant(value, t)
        x = self.graph.add_input(f"in{k}", t.shape, _NARROW if self.wide else t.dtype)
        if self.padded and not self.unit.from_input:
            x = self._pad(x, 1)
            self._second_pads.append(self._pad(x, 2))
        return self.graph.add_with("rescale", [x], _WIDENING) if self.wide else x

    def _constant(self, value: Const, t: Type) -> int:
        narrow = self.wide and value.data.dtype == DType.of(_NARROW).storage
        x = self.graph.add_const(value.data, _NARROW if narrow else t.dtype, t.shape)
        return self.graph.add_with("rescale", [x], _WIDENING) if narrow else x

    def _pad(self, x: int, cut: int) -> int:
        self._pads.append(add_pad(self.graph, x, cut))
        return self._pads[-1]
