"""Executes commands of Ethos-U55 and U65 in order, on terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Dma, FeatureMap
from eqsat.device.core.registers import IfmUpscaleMode
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Output, Pooling
from eqsat.device.ethos_u55.execution import ACCUMULATORS, check_reduced, copies, table_of, weights_of
from eqsat.device.ethos_u55.operations import BUILT_IN, reciprocals
from eqsat.device.ethos_u55.registers import ElementwiseMode, IfmScaleMode, PoolingMode, RoundMode
from eqsat.device.ethos_u55.weights import scales
from eqsat.device.stream import Config
from eqsat.proof import pointwise
from eqsat.proof.binary_memory import ShadowMemory
from eqsat.proof.binary_output import (
    activated,
    by_channel,
    by_factor,
    check_absolute,
    check_room,
    held,
    largest,
    operand,
    scaled,
)
from eqsat.proof.binary_windows import Window
from eqsat.proof.values import UNLIMITED, Terms, Value
from eqsat.tensor import makers
from eqsat.tensor.types import Attrs, Type, attrs_of

#: TOSA's binary operators and their attributes.
_OPERATORS: dict[ElementwiseMode, tuple[str, Attrs]] = {
    ElementwiseMode.ADD: ("add", ()),
    ElementwiseMode.SUB: ("sub", ()),
    ElementwiseMode.MUL: ("mul", makers.mul()),
    ElementwiseMode.MIN: ("minimum", makers.extremum()),
    ElementwiseMode.MAX: ("maximum", makers.extremum()),
    ElementwiseMode.SHR: ("arithmetic_right_shift", attrs_of({"round": True})),
    ElementwiseMode.SHL: ("logical_left_shift", ()),
}
_UNARY = {ElementwiseMode.ABS: "abs", ElementwiseMode.CLZ: "clz"}
#: Modes that are computed without a limit; TOSA defines the other operators for 32 bits.
_WIDE = (ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MUL, ElementwiseMode.MIN, ElementwiseMode.MAX)


class Execution:
    """One run of a command stream."""

    def __init__(self, t: Terms, config: Config, memory: ShadowMemory) -> None:
        self._t, self._config, self._memory = t, config, memory

    def step(self, c: Command) -> Value | None:
        """Executes one command and returns what it computes. Raises DeviceError and Undecidable.

        None for a command that only copies.
        """
        match c:
            case Dma():
                source, destination = c.source, c.destination
                self._memory.copy(
                    source.region, source.places(c.steps), destination.region, destination.places(c.steps), c.length
                )
                return None
            case Convolution():
                return self._convolved(c)
            case Pooling():
                return self._pooled(c)
            case Elementwise():
                return self._combined(c)

    def _convolved(self, c: Convolution) -> Value:
        weights = weights_of(c, self._config.core, self._memory)
        own = scales(tuple(self._memory.constant(s) for s in c.scales), c.output.map.depth)
        v = held(self._t, self._window(c).convolved(weights, c.depthwise), ACCUMULATORS[c.block.accumulators])
        return self._store(c.output, by_channel(self._t, v, own, c.output.rounding.rule))

    def _window(self, c: Convolution | Pooling) -> Window:
        return Window(self._t, self._memory.read(c.ifm), c.kernel, c.output.shape[:2], c.upscale, c.ifm.zero_point)

    def _pooled(self, c: Pooling) -> Value | None:
        t, out = self._t, c.output
        if copies(c):
            self._memory.move(c.ifm, out.map)
            return None
        window = self._window(c)
        if c.block.accumulators not in ACCUMULATORS:
            raise DeviceError(f"the model does not know {c.block.accumulators.name}")
        bits = ACCUMULATORS[c.block.accumulators]
        if c.mode == PoolingMode.MAX:
            return self._store(out, held(t, window.extremum("max"), bits))
        if c.mode == PoolingMode.REDUCE_SUM:
            check_reduced(out)
        v = held(t, window.summed_over_depth() if c.mode == PoolingMode.REDUCE_SUM else window.summed(), bits)
        if c.mode == PoolingMode.AVERAGE and c.kernel.padded:
            counts, every = window.counts()
            v = scaled(t, v, *reciprocals(counts), out.rounding.rule, every)
        elif out.scale is None:
            own = scales(tuple(self._memory.constant(s) for s in c.scales), out.map.depth)
            v = by_channel(t, v, own, out.rounding.rule)
        else:
            v = by_factor(t, v, out.scale, out.rounding.rule)
        return self._store(out, t.recognized(v))

    def _combined(self, c: Elementwise) -> Value:
        if c.upscale != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know upscaled elementwise operations")
        t = self._t
        x = self._operand(c, c.ifm)
        out = Type((1, *c.output.shape), UNLIMITED if c.mode in _WIDE else "INT32")
        if c.mode in _UNARY:
            if c.mode == ElementwiseMode.ABS:
                check_absolute(t, x)
            v = pointwise.unary(t, _UNARY[c.mode], (), x, out)
        elif c.mode in _OPERATORS:
            v = self._of_two(c, x, out)
        else:
            raise DeviceError(f"the model does not know {c.mode.name}")
        if c.output.scale is not None:
            v = by_factor(t, v, c.output.scale, c.output.rounding.rule)
        return self._store(c.output, v)

    def _operand(self, c: Elementwise, m: FeatureMap) -> Value:
        return operand(self._t, self._memory.read(m), m.zero_point, c.mode in _WIDE)

    def _of_two(self, c: Elementwise, x: Value, out: Type) -> Value:
        t = self._t
        if c.ifm2 is not None:
            y = self._operand(c, c.ifm2)
        else:
            assert c.scalar is not None
            y = operand(t, t.constant(np.full((1, 1, 1, 1), c.scalar), x.dtype), c.zero_point2, c.mode in _WIDE)
        a, b = (y, x) if c.reversed else (x, y)
        if c.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
            a, b = self._operands(c, a, b)
        if c.mode == ElementwiseMode.SHR and c.output.rounding != RoundMode.NATURAL:
            raise DeviceError(f"the model does not know how SHR rounds with {c.output.rounding.name}")
        if c.mode == ElementwiseMode.MUL:
            check_room(t, a, largest(t, b))
        op, attrs = _OPERATORS[c.mode]
        return pointwise.binary(t, op, attrs, (a, b), out)

    def _operands(self, c: Elementwise, a: Value, b: Value) -> tuple[Value, Value]:
        """Returns both operands of a sum, scaled as in `device.ethos_u55.operations`."""
        t = self._t
        assert c.opa is not None and c.opb is not None
        if c.input_scale == IfmScaleMode.OPA_OPB_16:
            opa = c.opa.multiplier & 0xFFFF
            first, second = (c.opb, opa) if c.reversed else (opa, c.opb)
            return t.stepped(a, [("affine", first, 0)], a.dtype), t.stepped(b, [("affine", second, 0)], b.dtype)
        if c.ifm.element.bits not in BUILT_IN:
            raise DeviceError(f"the model does not know {c.input_scale.name} for {c.ifm.element.dtype}")
        built_in = ("affine", 1 << BUILT_IN[c.ifm.element.bits], 0)
        rule = c.input_rounding.rule
        if c.input_scale == IfmScaleMode.OPA_32:
            return replace(by_factor(t, a, c.opa, rule), dtype=a.dtype), t.stepped(b, [built_in], b.dtype)
        return t.stepped(a, [built_in], a.dtype), replace(by_factor(t, b, c.opa, rule), dtype=b.dtype)

    def _store(self, o: Output, v: Value) -> Value:
        table = table_of(o, self._config.internal, self._memory)
        v = activated(self._t, v, o, table)
        self._memory.write(o.map, v)
        return v
