"""The text of operations of Ethos-U55 and U65."""

from __future__ import annotations

from eqsat.device.core import words
from eqsat.device.core.operands import Dma
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Output, Pooling
from eqsat.device.ethos_u55.registers import ActivationClipRange, ActivationFunction


def kind(c: Command) -> str:
    match c:
        case Convolution():
            return "depthwise" if c.depthwise else "convolution"
        case Pooling() | Elementwise():
            return c.mode.name.lower()
        case Dma():
            return "dma"


def describe(c: Command) -> str:
    """Returns the text that follows the kind."""
    match c:
        case Convolution():
            read = f"{words.feature_map(c.ifm)}{words.upscaled(c.upscale)} * {words.window(c.kernel)}"
            return f"{read} -> {_output(c.output)}; weights {words.ranges(c.weights)}"
        case Pooling():
            read = f"{words.feature_map(c.ifm)}{words.upscaled(c.upscale)} over {words.window(c.kernel)}"
            return f"{read} -> {_output(c.output)}"
        case Elementwise():
            second = f"{c.scalar}" if c.ifm2 is None else words.feature_map(c.ifm2)
            operands = [words.feature_map(c.ifm), *([] if c.ifm2 is None and c.scalar is None else [second])]
            return f"{', '.join(operands[::-1] if c.reversed else operands)}{_inputs(c)} -> {_output(c.output)}"
        case Dma():
            return words.copy(c)


def _inputs(c: Elementwise) -> str:
    if c.opa is None or c.opb is None:
        return ""
    return f" scaled {c.input_scale.name} {words.scale(c.opa)}, {c.opb} {c.input_rounding.name}"


def _output(o: Output) -> str:
    scale = "own scales" if o.scale is None else words.scale(o.scale)
    a = o.activation
    how = [] if a.function == ActivationFunction.RELU else [a.function.name.lower()]
    how += [] if a.clip_range == ActivationClipRange.OFM_PRECISION else [a.clip_range.name.lower()]
    return f"{words.feature_map(o.map)} ({', '.join([scale, o.rounding.name, *how])})"
