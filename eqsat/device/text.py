"""A binary in words: what `eqsat disassemble` prints."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.device.binary import Binary, Tensor
from eqsat.device.core import words
from eqsat.device.core.registers import ActivationClipRange, ActivationFunction
from eqsat.device.ethos_u55.commands import Command, Convolution, Dma, Elementwise, Output, Pooling
from eqsat.device.ethos_u85 import commands as ethos_u85
from eqsat.device.ethos_u85.text import describe as described_u85
from eqsat.device.ethos_u85.text import kind as kind_u85
from eqsat.device.stream import Instruction


def disassemble(binary: Binary, registers: bool = False) -> Iterator[str]:
    """Line by line: the memory, then one operation after the other; with `registers` each under the instructions that
    led to it.
    Raises DeviceError."""
    stream = binary.instructions()
    yield f"{binary.config.accelerator}, {binary.config.shram} KiB of shared memory"
    fast = "not said" if binary.scratch_fast is None else f"{binary.scratch_fast:,} bytes"
    yield f"region 0 constants {len(binary.read_only):,} bytes, 1 scratch {binary.scratch:,} bytes, 2 fast scratch {fast}"
    for name, tensors in (("input", binary.inputs), ("output", binary.outputs)):
        yield from (f"{name} {k}: {_tensor(t)}" for k, t in enumerate(tensors))
    found = binary.commands()
    counts: dict[str, int] = {}
    for c in found:
        counts[_kind(c)] = counts.get(_kind(c), 0) + 1
    yield f"{len(stream):,} instructions: " + ", ".join(f"{n:,} {k}" for k, n in counts.items())
    by_offset = {c.offset: c for c in found}
    source, shown = "", list[Instruction]()
    for i in stream:
        shown.append(i)
        command = by_offset.get(i.offset)
        if command is None:
            continue
        if (made_from := binary.operators.get(i.offset, source)) != source:
            source = made_from
            yield f"-- {source}"
        if registers:
            yield from (f"           {x.offset:#08x} {x}" for x in shown)
        shown = []
        yield f"{i.offset:#08x} {describe(command)}"


def _kind(c: Command | ethos_u85.Command) -> str:
    match c:
        case Convolution():
            return "depthwise" if c.depthwise else "convolution"
        case Pooling() | Elementwise():
            return c.mode.name.lower()
        case Dma():
            return "dma"
    return kind_u85(c)


def describe(c: Command | ethos_u85.Command) -> str:
    """One line for one operation."""
    return f"{_kind(c)} {_described(c)}".rstrip()


def _described(c: Command | ethos_u85.Command) -> str:
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
            source, destination = (
                words.place(*side) for side in ((c.source_region, c.source), (c.destination_region, c.destination))
            )
            return words.copy(c.sizes, c.length, source, destination)
    return described_u85(c)


def _tensor(t: Tensor) -> str:
    return f"{list(t.shape)} of {t.element} byte(s) at {t.region}:{t.address:#x}"


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
