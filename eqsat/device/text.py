"""A binary in words: what `eqsat disassemble` prints."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.device.binary import Binary, Tensor
from eqsat.device.commands import (
    Command,
    Convolution,
    Dma,
    Elementwise,
    FeatureMap,
    FixedPointScale,
    Kernel,
    Output,
    Pooling,
    Stop,
    Wait,
)
from eqsat.device.registers import ActivationClipRange, ActivationFormat, ActivationFunction, IfmUpscaleMode
from eqsat.device.stream import Instruction


def disassemble(binary: Binary, registers: bool = False) -> Iterator[str]:
    """Line by line: the memory, then one operation after the other; with `registers` each under the instructions that led to it.
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


def _kind(c: Command) -> str:
    match c:
        case Convolution():
            return "depthwise" if c.depthwise else "convolution"
        case Pooling() | Elementwise():
            return c.mode.name.lower()
        case Wait():
            return "wait"
        case Dma():
            return "dma"
        case Stop():
            return "stop"


def describe(c: Command) -> str:
    """One line for one operation."""
    match c:
        case Convolution():
            streams = ", ".join(f"{w.length:,} bytes at {w.region}:{w.address:#x}" for w in c.weights)
            what = (
                f"{_map(c.ifm)}{_upscaled(c.upscale)} * {_window(c.kernel)} -> {_output(c.output)}; weights {streams}"
            )
        case Pooling():
            what = f"{_map(c.ifm)}{_upscaled(c.upscale)} over {_window(c.kernel)} -> {_output(c.output)}"
        case Elementwise():
            second = "" if c.ifm2 is None and c.scalar is None else f"{c.scalar}" if c.ifm2 is None else _map(c.ifm2)
            operands = [_map(c.ifm), *filter(None, [second])]
            what = f"{', '.join(operands[::-1] if c.reversed else operands)}{_inputs(c)} -> {_output(c.output)}"
        case Dma():
            pieces = f"{c.sizes[0]} x {c.sizes[1]} x " if c.sizes != (1, 1) else ""
            source, destination = (
                f"{'shared memory' if r is None else r}:{a:#x}"
                for r, a in ((c.source_region, c.source), (c.destination_region, c.destination))
            )
            what = f"{pieces}{c.length:,} bytes {source} -> {destination}"
        case Wait():
            what = f"until {c.outstanding} {'operations' if c.kernel else 'copies'} are outstanding"
        case Stop():
            what = ""
    return f"{_kind(c)} {what}".rstrip()


def _tensor(t: Tensor) -> str:
    return f"{list(t.shape)} of {t.element} byte(s) at {t.region}:{t.address:#x}"


def _map(m: FeatureMap) -> str:
    brick = " bricks" if m.format == ActivationFormat.NHCWB16 else ""
    tiles = "" if m.height0 >= m.height and m.width0 >= m.width else " tiled"
    zero = f" zp {m.zero_point}" if m.zero_point else ""
    return f"{m.element.dtype}[{m.height},{m.width},{m.depth}]{brick}{tiles}{zero} at {m.region}:{m.bases[0]:#x}"


def _upscaled(mode: IfmUpscaleMode) -> str:
    return "" if mode == IfmUpscaleMode.NONE else f" upscaled by {mode.name.lower()}"


def _window(k: Kernel) -> str:
    parts = [f"{k.height}x{k.width}"]
    parts += [f"stride {k.stride[0]},{k.stride[1]}"] * (k.stride != (1, 1))
    parts += [f"dilation {k.dilation[0]},{k.dilation[1]}"] * (k.dilation != (1, 1))
    parts += [f"padding {k.top},{k.left},{k.bottom},{k.right}"] * k.padded
    return " ".join(parts)


def _scale(s: FixedPointScale) -> str:
    return f"{s.multiplier} >> {s.shift}"


def _inputs(c: Elementwise) -> str:
    if c.opa is None or c.opb is None:
        return ""
    return f" scaled {c.input_scale.name} {_scale(c.opa)}, {c.opb} {c.input_rounding.name}"


def _output(o: Output) -> str:
    scale = "own scales" if o.scale is None else _scale(o.scale)
    a = o.activation
    how = [] if a.function == ActivationFunction.RELU else [a.function.name.lower()]
    how += [] if a.clip_range == ActivationClipRange.OFM_PRECISION else [a.clip_range.name.lower()]
    return f"{_map(o.map)} ({', '.join([scale, o.rounding.name, *how])})"
