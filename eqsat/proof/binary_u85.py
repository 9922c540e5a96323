"""Executes commands of Ethos-U85 in order, on terms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eqsat.device.core.arithmetic import looked_up
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import SAME, ByteRange, Dma, FeatureMap
from eqsat.device.core.registers import IfmUpscaleMode, Rounding
from eqsat.device.ethos_u85.arithmetic import TABLES, clamp, table_place
from eqsat.device.ethos_u85.commands import (
    Accumulators,
    Chained,
    Command,
    Convolution,
    Elementwise,
    InputScale,
    Operand,
    Output,
    Pooling,
    Resize,
    Scalar,
)
from eqsat.device.ethos_u85.decoding import TRANSPOSED
from eqsat.device.ethos_u85.execution import ACCUMULATORS, REVERSED, weights_of
from eqsat.device.ethos_u85.operations import ABOVE, SCALED, check_argmax
from eqsat.device.ethos_u85.registers import (
    AccFormat,
    AccInput,
    ActivationClipRange,
    ActivationReverse,
    ElementwiseMode,
    PoolingMode,
    ResizeMode,
)
from eqsat.device.ethos_u85.weights import scales
from eqsat.device.stream import Config
from eqsat.proof import indexing, linear, pointwise
from eqsat.proof.binary_memory import DTYPES, ShadowMemory
from eqsat.proof.binary_output import (
    by_channel,
    by_factor,
    check_absolute,
    check_room,
    fitting,
    held,
    largest,
    operand,
    scaled,
)
from eqsat.proof.binary_windows import Window
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value
from eqsat.tensor import makers
from eqsat.tensor.ops.indexing import NEAREST
from eqsat.tensor.types import Attrs, Type, attrs_of

#: TOSA's binary operators that are computed without a limit.
_WIDE: Mapping[ElementwiseMode, tuple[str, Attrs]] = {
    ElementwiseMode.ADD: ("add", ()),
    ElementwiseMode.SUB: ("sub", ()),
    ElementwiseMode.MUL: ("mul", makers.mul()),
    ElementwiseMode.MIN: ("minimum", makers.extremum()),
    ElementwiseMode.MAX: ("maximum", makers.extremum()),
    ElementwiseMode.CMP_EQ: ("equal", ()),
    ElementwiseMode.CMP_GE: ("greater_equal", ()),
    ElementwiseMode.CMP_GT: ("greater", ()),
}
#: TOSA's binary operators of 32 bits.
_NARROW: Mapping[ElementwiseMode, tuple[str, Attrs]] = {
    ElementwiseMode.AND: ("bitwise_and", ()),
    ElementwiseMode.OR: ("bitwise_or", ()),
    ElementwiseMode.XOR: ("bitwise_xor", ()),
    ElementwiseMode.SHL: ("logical_left_shift", ()),
    ElementwiseMode.LSR: ("logical_right_shift", ()),
    ElementwiseMode.DIV: ("intdiv", ()),
}
_COMPARISONS = (ElementwiseMode.CMP_EQ, ElementwiseMode.CMP_GE, ElementwiseMode.CMP_GT)
#: The attribute `round` of ARITHMETIC_RIGHT_SHIFT, by the rounding of the output.
_SHIFTS = {Rounding.TRUNCATE_TO_LOWER: False, Rounding.NATURAL: True}


class Execution:
    """One run of a command stream.

    Chaining buffers and accumulators keep their values from one command to the next.
    """

    def __init__(self, t: Terms, config: Config, memory: ShadowMemory) -> None:
        self._t, self._config, self._memory = t, config, memory
        self._chained: dict[int, tuple[Value, str, int]] = {}
        self._kept: Value | None = None

    def step(self, c: Command) -> Value | None:
        """Executes one command and returns what it computes. Raises DeviceError and Undecidable.

        None for a copy, and for a command whose accumulators are kept.
        """
        match c:
            case Dma():
                self._copy(c)
                return None
            case Convolution():
                return self._finish(c.accumulators, self._convolved(c), c.ifm2, c.output, c.scales, sums=True)
            case Pooling():
                return self._pooled(c)
            case Elementwise():
                if c.upscale != IfmUpscaleMode.NONE:
                    raise DeviceError("the model does not know upscaled elementwise operations")
                return self._finish(c.accumulators, self._combined(c), None, c.output, None)
            case Resize():
                return self._finish(c.accumulators, self._resized(c), None, c.output, None)

    # ---- sums and extrema ------------------------------------------------------------------------

    def _window(self, c: Convolution | Pooling) -> Window:
        return Window(self._t, self._memory.read(c.ifm), c.kernel, c.output.shape[:2], c.upscale, c.ifm.zero_point)

    def _convolved(self, c: Convolution) -> Value:
        if c.matrices:
            return self._product(c)
        weights = weights_of(c, self._config.core, self._memory)
        return self._window(c).convolved(weights, c.depthwise)

    def _product(self, c: Convolution) -> Value:
        """Returns the product of two matrices.

        Each row of the second operand has the weights of one output channel.
        """
        k = c.kernel
        if (k.height, k.width, k.stride) != (1, 1, (1, 1)) or k.padded or c.upscale != IfmUpscaleMode.NONE:
            raise Undecidable("a product of matrices with a window")
        assert c.ifm2 is not None
        if max(c.ifm.element.bits, c.ifm2.element.bits) > 16:
            raise Undecidable("a product of matrices of 32 bits")
        x, y = self._memory.read(c.ifm), self._memory.read(c.ifm2)
        height, width, depth = c.output.shape
        rows = np.arange(x.elements).reshape(x.shape)[0, :height, :width].reshape(1, height * width, -1)
        columns = np.arange(y.elements).reshape(y.shape)[:, 0].transpose(0, 2, 1)
        if columns.shape[2] != depth or rows.shape[1] != height * width:
            raise Undecidable("a product of matrices whose shapes do not fit")
        zero_points = {"in_zp": (c.ifm.zero_point,), "w_zp": (c.ifm2.zero_point,)}
        check_room(self._t, x, 2 * x.shape[3] * largest(self._t, y))
        operands = x.moved(rows, rows.shape), y.moved(columns, columns.shape)
        v = linear.matmul(self._t, zero_points, operands, Type((1, height * width, depth), UNLIMITED))
        return v.moved(np.arange(v.elements), (1, height, width, depth))

    def _pooled(self, c: Pooling) -> Value | None:
        t, zeros = self._t, np.zeros((1, *c.output.shape), np.int64)
        match c.mode:
            case PoolingMode.NONE:
                v = t.constant(zeros, UNLIMITED)
            case PoolingMode.MAX | PoolingMode.MIN:
                v = self._window(c).extremum("max" if c.mode == PoolingMode.MAX else "min")
            case PoolingMode.AVERAGE:
                v = self._averaged(c)
            case PoolingMode.ARGMAX_X | PoolingMode.ARGMAX_Y:
                v = self._first_largest(c)
            case PoolingMode.SUM:
                v = self._window(c).summed()
            case PoolingMode.REDUCE_SUM:
                v = self._window(c).summed_over_depth()
        return self._finish(c.accumulators, v, c.ifm2, c.output, c.scales, sums=True)

    def _averaged(self, c: Pooling) -> Value:
        """Returns the mean of each window, rounded as in `device.ethos_u85.operations`."""
        if c.output.scale != SAME:
            raise DeviceError("the model does not know an average that is scaled")
        window = self._window(c)
        sums, (counts, every) = window.summed(), window.counts()
        return self._t.recognized(self._t.stepped(sums, [("mean", counts)], UNLIMITED, every))

    def _first_largest(self, c: Pooling) -> Value:
        check_argmax(c)
        t = self._t
        window = self._window(c)
        places = window.places()
        ordered = t.field.digest(t.symbol("argmax"), t.lanes(window.x)[:, places])
        v = t.root(ordered, (1, *c.output.shape), UNLIMITED, (0, len(places) - 1))
        return t.stepped(v, [("affine", 1 << ABOVE, 0)], UNLIMITED)

    def _resized(self, c: Resize) -> Value:
        """Returns the accumulators of a resize, shifted up by `ABOVE` bits, as those of TOSA's RESIZE."""
        t, out = self._t, Type((1, *c.output.shape), UNLIMITED)
        x = t.stepped(self._memory.read(c.ifm), [("affine", 1, -c.ifm.zero_point)], UNLIMITED)
        scale = tuple(n for a in (c.y, c.x) for n in (a.scale, a.step * a.scale + a.rest))
        attrs = {"scale": scale, "offset": (c.y.offset, c.x.offset), "mode": NEAREST}
        match c.mode:
            case ResizeMode.BILINEAR:
                v = linear.interpolated(t, attrs, x, out)
            case ResizeMode.NEAREST:
                v = indexing.moved(t, "resize", attrs_of(attrs), [x], out)
            case _:
                raise Undecidable(f"RESIZE by {c.mode.name}")
        return t.stepped(v, [("affine", 1 << ABOVE, 0)], UNLIMITED)

    # ---- element by element ----------------------------------------------------------------------

    def _operand(self, o: Operand, shape: tuple[int, int, int], wide: bool) -> Value:
        """Returns an operand without its zero point."""
        t = self._t
        if isinstance(o, Scalar):
            v = t.constant(np.full((1, 1, 1, 1), o.value), "INT32")
        elif isinstance(o, Chained):
            found, element, writer = self._chained.get(o.buffer, (None, "", 0))
            if found is None or found.shape[1:] != shape or element != o.element.dtype:
                raise DeviceError(f"chaining buffer {o.buffer} holds no {o.element.dtype}{list(shape)}")
            self._memory.sources.add(writer)
            v = found
        else:
            v = self._memory.read(o)
        return operand(t, v, o.zero_point, wide)

    def _combined(self, c: Elementwise) -> Value:
        t, wide = self._t, c.mode in _WIDE
        out = Type((1, *c.output.shape), UNLIMITED if wide else "INT32")
        operands = [self._operand(o, c.output.shape, wide) for o in c.operands]
        if c.mode in SCALED:
            operands = [_scaled_input(t, v, how) for v, how in zip(operands, c.inputs, strict=True)]
        elif any(how.scale != SAME for how in c.inputs):
            raise DeviceError(f"the model does not know {c.mode.name} with scaled operands")
        if len(operands) == 1:
            return self._unary(c, operands[0], out)
        if c.mode == ElementwiseMode.SHR:
            if c.output.rounding not in _SHIFTS:
                raise DeviceError(f"the model does not know how SHR rounds with {c.output.rounding.name}")
            attrs = attrs_of({"round": _SHIFTS[c.output.rounding]})
            return pointwise.binary(t, "arithmetic_right_shift", attrs, operands, out)
        known = {**_WIDE, **_NARROW}
        if c.mode not in known:
            raise Undecidable(f"there is no form for {c.mode.name}")
        op, attrs = known[c.mode]
        if c.mode == ElementwiseMode.MUL:
            check_room(t, operands[0], largest(t, operands[1]))
        if c.mode in _COMPARISONS:
            v = pointwise.binary(t, op, attrs, operands, Type(out.shape, "BOOL"))
            return t.stepped(v, [("affine", -1, 0)], UNLIMITED)  # a mask
        return pointwise.binary(t, op, attrs, operands, out)

    def _unary(self, c: Elementwise, x: Value, out: Type) -> Value:
        x = x.broadcast(out.shape)
        if c.mode == ElementwiseMode.NOT:
            return self._t.stepped(x, [("affine", -1, -1)], UNLIMITED)
        names = {ElementwiseMode.ABS: "abs", ElementwiseMode.CLZ: "clz"}
        if c.mode not in names:
            raise DeviceError(f"the model does not know {c.mode.name}")
        if c.mode == ElementwiseMode.ABS:
            check_absolute(self._t, x)
        return pointwise.unary(self._t, names[c.mode], (), x, out)

    # ---- results ---------------------------------------------------------------------------------

    def _finish(
        self,
        how: Accumulators,
        v: Value,
        start: FeatureMap | None,
        out: Output,
        own: ByteRange | None,
        sums: bool = False,
    ) -> Value | None:
        """Adds the initial accumulators, then scales and stores the sums or keeps them.

        sums: whether accumulators must be able to hold them.
        """
        t = self._t
        if how.input == AccInput.KEEP:
            if self._kept is None or self._kept.shape != v.shape:
                raise DeviceError("the accumulators that are added to were not kept")
            v = self._added(v, self._kept)
        elif how.input == AccInput.IFM2:
            if start is None:
                raise DeviceError("the model does not know what the accumulators begin with")
            v = self._added(v, operand(t, self._memory.read(start), start.zero_point, True))
        if sums:
            v = held(t, v, ACCUMULATORS[how.format])
        self._kept = None if how.output else v
        if not how.output:
            return None
        if own is not None:
            s = scales(self._memory.constant(own), out.shape[2], how.format == AccFormat.I48)
            v = by_channel(t, v, s, out.rounding)
        elif out.scale is not None:
            v = by_factor(t, v, out.scale, out.rounding)
        return self._store(out, v)

    def _added(self, v: Value, other: Value) -> Value:
        return pointwise.binary(self._t, "add", (), (v, other), Type(v.shape, UNLIMITED))

    def _store(self, out: Output, v: Value) -> Value:
        if out.map is None:
            raise DeviceError("an output that goes nowhere")
        v = _activated(self._t, v, out, self._memory)
        places = np.arange(v.elements).reshape(v.shape)
        if out.reverse != ActivationReverse.NONE:
            places = np.flip(places, REVERSED[out.reverse])
        places = places.transpose(0, *(1 + k for k in TRANSPOSED[out.transpose]))
        v = v.moved(places, places.shape)
        if isinstance(out.map, Chained):
            self._chained[out.map.buffer] = v, out.map.element.dtype, self._memory.writer
        else:
            self._memory.write(out.map, v)
            self._chained.clear()  # the chain ends here
        return v

    def _copy(self, c: Dma) -> None:
        chosen = self._chosen(c, c.steps)
        sources, places = (side.places(chosen if side.indexed else c.steps) for side in (c.source, c.destination))
        self._memory.copy(c.source.region, sources, c.destination.region, places, c.length)

    def _chosen(self, c: Dma, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Returns the pieces that indices choose; the indices must be constants."""
        i = c.indices
        if i is None:
            return steps
        if c.source.indexed and c.destination.indexed:
            raise DeviceError("a copy with indices on both sides")
        places = [i.address + (outer * c.sizes[1] + inner) * 4 + outer * i.skip for outer, inner in steps]
        raw = [self._memory.constant(ByteRange(i.region, at, 4)) for at in places]
        numbers = [int.from_bytes(data, "little", signed=True) for data in raw]
        if min(numbers) < 0 or max(numbers) > i.most:
            raise DeviceError(f"an index outside 0 to {i.most}")
        return [(outer, k) for (outer, _), k in zip(steps, numbers, strict=True)]


def _scaled_input(t: Terms, v: Value, how: InputScale) -> Value:
    if how.scale == SAME:
        return v
    return scaled(t, v, how.scale.multiplier, how.scale.shift, how.rounding.rule, double=how.double)


def _activated(t: Terms, v: Value, o: Output, memory: ShadowMemory) -> Value:
    """Adds the zero point to scaled results, clamps them and looks them up in a table.

    Raises DeviceError and Undecidable.
    """
    assert o.map is not None
    a, element = o.activation, o.map.element
    place = table_place(a)
    chosen, result = TABLES.get(a.function, (element, element))
    if result != element:
        raise DeviceError(f"{a.function.name} with results of {element.dtype}")
    v = t.stepped(v, [("affine", 1, o.map.zero_point)], UNLIMITED)
    if a.clip_range == ActivationClipRange.B16:
        least, most = chosen.limits
        low, high = clamp(a, chosen)
        if low < least or high > most:
            raise Undecidable(f"a clamp of {chosen.dtype} to {low} to {high}")
        dtype = DTYPES[chosen.bytes] if chosen.signed else UNLIMITED
        if chosen.bits <= 16:  # by what the type has room for, as graphs do, and then by the limits
            v = t.stepped(v, [("clip", least, most)], dtype)
        v = t.stepped(v, [("clip", low, high)], dtype)
    if place is not None:
        table = memory.constant(place)
        low_, high_ = t.limits(v)
        if low_.min() < chosen.limits[0] or high_.max() > chosen.limits[1]:
            raise Undecidable(f"a table of what {chosen.dtype} has no room for")
        done = t.tabulated(v, lambda x, _: looked_up(x, chosen, element, table), DTYPES[element.bytes])
        if done is None:
            raise Undecidable("a table of too many values")
        v = done
    return fitting(t, v, element)
