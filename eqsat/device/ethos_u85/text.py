"""The text of operations of Ethos-U85."""

from __future__ import annotations

from eqsat.device.core import words
from eqsat.device.core.operands import SAME, Dma, FeatureMap
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
from eqsat.device.ethos_u85.registers import (
    AccInput,
    ActivationClipRange,
    ActivationFunction,
    ActivationReverse,
    ActivationTranspose,
    WeightSparsity,
)


def kind(c: Command) -> str:
    match c:
        case Convolution():
            return "matmul" if c.matrices else "depthwise" if c.depthwise else "convolution"
        case Pooling():
            return "rescale" if c.mode.name == "NONE" else c.mode.name.lower()
        case Elementwise():
            return c.mode.name.lower()
        case Resize():
            return f"resize_{c.mode.name.lower()}"
        case Dma():
            return "dma" if c.indices is None else "gather" if c.source.indexed else "scatter"


def describe(c: Command) -> str:
    """Returns the text that follows the kind."""
    match c:
        case Convolution():
            return (
                f"{_convolution(c)}{_kept(c.accumulators, c.ifm2)} -> {_output(c.output, c.accumulators)}{_weights(c)}"
            )
        case Pooling():
            if c.mode.name == "NONE":
                read = "" if c.ifm2 is None else words.feature_map(c.ifm2)
            else:
                over = f"{words.feature_map(c.ifm)}{words.upscaled(c.upscale)} over {words.window(c.kernel)}"
                read = f"{over}{_kept(c.accumulators, c.ifm2)}"
            return f"{read} -> {_output(c.output, c.accumulators)}"
        case Elementwise():
            read = ", ".join(_operand(o) + _scaled(s) for o, s in zip(c.operands, c.inputs, strict=True))
            return f"{read} -> {_output(c.output, c.accumulators)}"
        case Resize():
            steps = ", ".join(f"({a.step * a.scale + a.rest} k + {a.offset}) / {a.scale}" for a in (c.y, c.x))
            return f"{words.feature_map(c.ifm)} at {steps} -> {_output(c.output, c.accumulators)}"
        case Dma():
            return words.copy(c)


def _convolution(c: Convolution) -> str:
    first = f"{words.feature_map(c.ifm)}{words.upscaled(c.upscale)}"
    if c.matrices and c.ifm2 is not None:
        return f"{first} * {words.feature_map(c.ifm2)}"
    return f"{first} * {words.window(c.kernel)}"


def _weights(c: Convolution) -> str:
    if c.matrices:
        return ""
    sparse = " sparse" if c.sparsity == WeightSparsity.SPARSE_2_4 else ""
    return f"; {c.format.name}{sparse} weights {words.ranges(c.weights)}"


def _kept(a: Accumulators, start: FeatureMap | None) -> str:
    if a.input == AccInput.KEEP:
        return " + what was kept"
    return f" + {words.feature_map(start)}" if a.input == AccInput.IFM2 and start is not None else ""


def _operand(o: Operand) -> str:
    match o:
        case Scalar():
            return f"{o.value}{words.zero_point(o.zero_point)}"
        case Chained():
            return f"{o.element.dtype}{words.zero_point(o.zero_point)} chained in {o.buffer}"
        case FeatureMap():
            return words.feature_map(o)


def _scaled(s: InputScale) -> str:
    if s.scale == SAME:
        return ""
    double = f" {s.double}" if s.double else ""
    return f" scaled {words.scale(s.scale)} {s.rounding.name}{double}"


def _output(o: Output, a: Accumulators) -> str:
    if not a.output or o.map is None:
        return "kept"
    act = o.activation
    how = ["own scales" if o.scale is None else words.scale(o.scale), o.rounding.name]
    if act.function != ActivationFunction.LUT_NONE:
        how.append(f"{act.function.name.lower()} {act.table}")
    how += ["no clamp"] * (act.clip_range == ActivationClipRange.NONE)
    how += [f"transposed to {o.transpose.name}"] * (o.transpose != ActivationTranspose.HWC)
    how += [f"reversed in {o.reverse.name}"] * (o.reverse != ActivationReverse.NONE)
    return f"{_operand(o.map)} ({', '.join(how)})"
