"""The text of parts of operations, for every family."""

from __future__ import annotations

from eqsat.device.core.operands import ByteRange, Dma, DmaSide, FeatureMap, FixedPointScale, Kernel, Wait
from eqsat.device.core.registers import ActivationFormat, IfmUpscaleMode


def feature_map(m: FeatureMap) -> str:
    brick = " bricks" if m.format == ActivationFormat.NHCWB16 else ""
    tiles = "" if m.height0 >= m.height and m.width0 >= m.width else " tiled"
    kind = f"{m.element.dtype}[{m.height},{m.width},{m.depth}]{brick}{tiles}"
    return f"{kind}{zero_point(m.zero_point)} at {m.region}:{m.bases[0]:#x}"


def zero_point(value: int) -> str:
    return f" zp {value}" if value else ""


def upscaled(mode: IfmUpscaleMode) -> str:
    return "" if mode == IfmUpscaleMode.NONE else f" upscaled by {mode.name.lower()}"


def window(k: Kernel) -> str:
    parts = [f"{k.height}x{k.width}"]
    parts += [f"stride {k.stride[0]},{k.stride[1]}"] * (k.stride != (1, 1))
    parts += [f"dilation {k.dilation[0]},{k.dilation[1]}"] * (k.dilation != (1, 1))
    parts += [f"padding {k.top},{k.left},{k.bottom},{k.right}"] * k.padded
    return " ".join(parts)


def scale(s: FixedPointScale) -> str:
    return f"{s.multiplier} >> {s.shift}"


def ranges(places: tuple[ByteRange, ...]) -> str:
    return ", ".join(f"{w.length:,} bytes at {w.region}:{w.address:#x}" for w in places)


def wait(w: Wait) -> str:
    return f"until {w.outstanding} {'operations' if w.kernel else 'copies'} are outstanding"


def copy(c: Dma) -> str:
    pieces = f"{c.sizes[0]} x {c.sizes[1]} x " if c.sizes != (1, 1) else ""
    return f"{pieces}{c.length:,} bytes {_side(c.source, c)} -> {_side(c.destination, c)}"


def _side(side: DmaSide, c: Dma) -> str:
    chosen = f" by indices at {_place(c.indices.region, c.indices.address)}" if side.indexed and c.indices else ""
    return _place(side.region, side.address) + chosen


def _place(region: int | None, address: int) -> str:
    return f"{'shared memory' if region is None else region}:{address:#x}"
