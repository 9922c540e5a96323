"""The text of commands, and of a binary, which `eqsat disassemble` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from eqsat.device.binary import Binary, Tensor
from eqsat.device.core.operands import (
    SAME,
    Accumulators,
    Chained,
    Computation,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    FeatureMap,
    FixedPointScale,
    InputScale,
    Kernel,
    Operand,
    Output,
    Pooling,
    Resize,
    Scalar,
    Stop,
    Wait,
)
from eqsat.device.core.registers import (
    AccInput,
    ActivationFormat,
    ActivationReverse,
    ActivationTranspose,
    IfmUpscaleMode,
    Instruction,
    PoolingMode,
    WeightSparsity,
)


def disassemble(binary: Binary, registers: bool = False) -> Iterator[str]:
    """Yields the lines of a binary's text: its memory, then its operations in order. Raises DeviceError.

    registers: whether to show the instructions that lead to each operation above it.
    """
    stream = binary.instructions()
    yield f"{binary.config.accelerator}, {binary.config.shram} KiB of shared memory"
    fast = "not said" if binary.scratch_fast is None else f"{binary.scratch_fast:,} bytes"
    regions = f"region 0 constants {len(binary.read_only):,} bytes, 1 scratch {binary.scratch:,} bytes"
    yield f"{regions}, 2 fast scratch {fast}"
    for name, tensors in (("input", binary.inputs), ("output", binary.outputs)):
        yield from (f"{name} {k}: {_tensor(t)}" for k, t in enumerate(tensors))
    found = binary.commands()
    counts = Counter(map(kind, found))
    yield f"{len(stream):,} instructions: " + ", ".join(f"{n:,} {k}" for k, n in counts.items())
    by_offset, sources = {c.offset: c for c in found}, _sources(binary, [c.offset for c in found])
    source, shown = "", list[Instruction]()
    for i in stream:
        shown.append(i)
        command = by_offset.get(i.offset)
        if command is None:
            continue
        if sources[i.offset] not in ("", source):
            source = sources[i.offset]
            yield f"-- {source}"
        if registers:
            yield from (f"           {x.offset:#08x} {x}" for x in shown)
        shown = []
        yield f"{i.offset:#08x} {line(command)}"


def _sources(binary: Binary, offsets: Sequence[int]) -> dict[int, str]:
    """Returns the source of each command, which the last of its commands names; "" after the last one known."""
    out, source = dict[int, str](), ""
    for offset in reversed(offsets):
        out[offset] = source = binary.operators.get(offset, source)
    return out


def _tensor(t: Tensor) -> str:
    return f"{list(t.shape)} of {t.element} byte(s) at {t.region}:{t.address:#x}"


# ---- commands ----------------------------------------------------------------------------------


def kind(c: Computation | Dma | Wait | Stop) -> str:
    """Returns the kind of a command in one word."""
    match c:
        case Convolution():
            return "matmul" if c.matrices else "depthwise" if c.depthwise else "convolution"
        case Pooling():
            return "rescale" if c.mode == PoolingMode.NONE else c.mode.name.lower()
        case Elementwise():
            return c.mode.name.lower()
        case Resize():
            return f"resize_{c.mode.name.lower()}"
        case Dma():
            return "dma" if c.indices is None else "gather" if c.source.indexed else "scatter"
        case Wait() | Stop():
            return type(c).__name__.lower()


def line(c: Computation | Dma | Wait | Stop) -> str:
    """Returns the line of text of a command, which begins with its kind."""
    match c:
        case Wait():
            said = f"until {c.outstanding} {'operations' if c.kernel else 'copies'} are outstanding"
        case Stop():
            said = ""
        case Dma():
            pieces = f"{c.sizes[0]} x {c.sizes[1]} x " if c.sizes != (1, 1) else ""
            said = f"{pieces}{c.length:,} bytes {_side(c.source, c)} -> {_side(c.destination, c)}"
        case _:
            said = f"{_read(c)} -> {_output(c.output, c.accumulators)}"
            if isinstance(c, Convolution) and not c.matrices:
                said += f"; {_weights(c)}"
    return f"{kind(c)} {said}".rstrip()


def _read(c: Computation) -> str:
    match c:
        case Pooling() if c.mode == PoolingMode.NONE:
            return "" if c.ifm2 is None else _operand(c.ifm2)
        case Convolution() if c.matrices and c.ifm2 is not None:
            return f"{_describe_upscaling(c.ifm, c.upscale)} * {_operand(c.ifm2)}"
        case Convolution() | Pooling():
            over = "*" if isinstance(c, Convolution) else "over"
            ifm, kept = _describe_upscaling(c.ifm, c.upscale), _describe_kept(c.accumulators, c.ifm2)
            return f"{ifm} {over} {_window(c.kernel)}{kept}"
        case Elementwise():
            operands = [_operand(o) + _describe_scale(s) for o, s in zip(c.operands, c.inputs, strict=True)]
            return ", ".join(operands[::-1] if c.reversed else operands)
        case Resize():
            steps = ", ".join("({1} k + {0}) / {2}".format(*a) for a in (c.y, c.x))
            return f"{_operand(c.ifm)} at {steps}"


def _operand(o: Operand) -> str:
    zero_point = f" zp {o.zero_point}" if o.zero_point else ""
    match o:
        case Scalar():
            return f"{o.value}{zero_point}"
        case Chained():
            return f"{o.element.dtype}{zero_point} chained in {o.buffer}"
        case FeatureMap():
            brick = " bricks" if o.format == ActivationFormat.NHCWB16 else ""
            tiles = "" if o.height0 >= o.height and o.width0 >= o.width else " tiled"
            shape = f"{o.element.dtype}[{o.height},{o.width},{o.depth}]{brick}{tiles}"
            return f"{shape}{zero_point} at {o.region}:{o.bases[0]:#x}"


def _describe_upscaling(m: FeatureMap, mode: IfmUpscaleMode) -> str:
    return _operand(m) + ("" if mode == IfmUpscaleMode.NONE else f" upscaled by {mode.name.lower()}")


def _window(k: Kernel) -> str:
    parts = [f"{k.height}x{k.width}"]
    parts += [f"stride {k.stride[0]},{k.stride[1]}"] * (k.stride != (1, 1))
    parts += [f"dilation {k.dilation[0]},{k.dilation[1]}"] * (k.dilation != (1, 1))
    parts += [f"padding {k.top},{k.left},{k.bottom},{k.right}"] * k.padded
    return " ".join(parts)


def _describe_kept(a: Accumulators, start: FeatureMap | None) -> str:
    if a.input == AccInput.KEEP:
        return " + what was kept"
    return f" + {_operand(start)}" if a.input == AccInput.IFM2 and start is not None else ""


def _describe_scale(s: InputScale) -> str:
    if s.scale == SAME:
        return ""
    double = f" {s.double}" if s.double else ""
    return f" scaled {_scale(s.scale)} {s.rounding.name}{double}"


def _scale(s: FixedPointScale) -> str:
    return f"{s.multiplier} >> {s.shift}"


def _weights(c: Convolution) -> str:
    format_ = "" if c.format is None else f"{c.format.name} "
    sparse = "sparse " if c.sparsity == WeightSparsity.SPARSE_2_4 else ""
    places = ", ".join(f"{w.length:,} bytes at {w.region}:{w.address:#x}" for w in c.weights)
    return f"{format_}{sparse}weights {places}"


def _output(o: Output, a: Accumulators) -> str:
    if not a.output or o.map is None:
        return "kept"
    act = o.activation
    how = ["own scales" if o.scale is None else _scale(o.scale), o.rounding.name]
    if act.function:
        how.append(act.function.name.lower() + ("" if act.table is None else f" {act.table}"))
    if act.clip_range:
        how.append("no clamp" if act.clip_range.name == "NONE" else act.clip_range.name.lower())
    how += [f"transposed to {o.transpose.name}"] * (o.transpose != ActivationTranspose.HWC)
    how += [f"reversed in {o.reverse.name}"] * (o.reverse != ActivationReverse.NONE)
    return f"{_operand(o.map)} ({', '.join(how)})"


def _side(side: DmaSide, c: Dma) -> str:
    chosen = f" by indices at {_place(c.indices.region, c.indices.address)}" if side.indexed and c.indices else ""
    return _place(side.region, side.address) + chosen


def _place(region: int | None, address: int) -> str:
    return f"{'shared memory' if region is None else region}:{address:#x}"
