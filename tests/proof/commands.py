"""Commands of every family with registers at their limits, for Hypothesis: executed on numbers by the functional model,
and on terms whose roots are the integers that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat.device.binary import Config
from eqsat.device.core import registers as core
from eqsat.device.core.numbers import NumberMachine
from eqsat.device.core.operands import (
    BRICK,
    SAME,
    Accumulators,
    Activation,
    Banks,
    Block,
    ByteRange,
    Chained,
    Convolution,
    Dma,
    DmaSide,
    Element,
    Elementwise,
    FeatureMap,
    FixedPointScale,
    Indices,
    InputScale,
    Kernel,
    Operand,
    Output,
    Pooling,
    Resize,
    ResizedAxis,
    Scalar,
)
from eqsat.device.ethos_u55 import registers as r55
from eqsat.device.ethos_u85 import registers as r85
from eqsat.device.ethos_u85.execution import TABLES
from eqsat.device.run import UNKNOWN
from eqsat.proof.binary_machine import TermMachine
from eqsat.proof.field import Lanes
from eqsat.proof.functions import Ints
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Value
from eqsat.target import FAMILIES
from eqsat.target.family import HWC
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type
from tests.proof.concrete import ConcreteField, ConcreteTerms, Opaque

CONSTANTS, SCRATCH = 0, 1
_SIZE = 1 << 14
#: Where operands, initial accumulators and results lie.
_IFM, _IFM2, _OFM = 0, 1 << 12, 3 << 12
_ONE = Kernel(1, 1, (1, 1), (1, 1), 0, 0, 0, 0)
U55, U65, U85 = (
    Config(family, f"ethos-{family.name}-{macs}", shram)
    for family, macs, shram in zip(FAMILIES, (128, 512, 256), (24, 96, 2), strict=True)
)


def _edges(low: int, high: int) -> st.SearchStrategy[int]:
    near = {low, low + 1, -1, 0, 1, high - 1, high, (low + high) // 2}
    return st.sampled_from(sorted(k for k in near if low <= k <= high)) | st.integers(low, high)


def _mostly(draw: st.DrawFn, times: int = 5) -> bool:
    """True so many times as often as False."""
    return draw(st.sampled_from([True] * times + [False]))


def _choose(draw: st.DrawFn, *of: Any) -> Any:
    """One of these, in which what is listed twice is drawn twice as often."""
    return draw(st.sampled_from(of))


@dataclass(frozen=True)
class Case:
    """Commands, the map of the last one's result, and what memory holds before them.

    held: (feature map, whether its elements are constants, whether they are amounts of a shift). seed: of the numbers.
    tables: the NPU's own memory. given: the numbers, if they are not drawn.
    """

    config: Config = field(repr=False)
    commands: tuple[Any, ...]
    held: tuple[tuple[FeatureMap, bool, bool], ...]
    result: FeatureMap = field(repr=False)
    constants: bytes = field(repr=False)
    tables: bytes = field(repr=False)
    seed: int = 0
    given: tuple[Ints, ...] = ()

    def numbers(self, sample: int) -> list[Ints]:
        """The elements of each map that memory holds: limits and their neighbours in every other sample, or any."""
        if self.given:
            return list(self.given)
        out = []
        for k, (m, fixed, small) in enumerate(self.held):
            rng = np.random.default_rng([self.seed, k, 0 if fixed else sample])
            low, high = (m.zero_point, m.zero_point + 31) if small else m.element.limits
            low, high = (int(k) for k in np.clip((low, high), *m.element.limits))
            size = m.height, m.width, m.depth
            near = np.array([low, low + 1, -1, 0, 1, m.zero_point, m.zero_point + 1, high - 1, high]).clip(low, high)
            pick = rng.choice(near, size) if sample % 2 == 0 else rng.integers(low, high, size, endpoint=True)
            out.append(pick.astype(np.int64))
        return out


def run(case: Case, sample: int) -> Ints | None:
    """What the functional model computes; None where it has no result."""
    c = case.config
    memory = NumberMachine(1, {CONSTANTS: len(case.constants), SCRATCH: _SIZE}, c.internal)
    memory.region(CONSTANTS)[...] = np.frombuffer(case.constants, np.uint8)
    memory.region(None)[...] = np.frombuffer(case.tables, np.uint8)
    for (m, *_), x in zip(case.held, case.numbers(sample), strict=True):
        memory.write(m, x.astype(m.element.dtype)[None])
    execution = c.commands.execution(c.core, memory)
    try:
        with np.errstate(all="ignore"):
            for command in case.commands:
                execution.step(command)
            return np.array(memory.read(case.result)[0]).astype(np.int64)
    except UNKNOWN:
        return None


class _Field(ConcreteField):
    """The only digest of commands is that of ARGMAX."""

    def digest(self, symbol: int, values: Lanes) -> Lanes:
        lanes, terms, rows = values.shape
        numbers = self.integers(values.reshape(lanes, -1)).reshape(terms, rows)
        return self.constants(numbers.argmax(0))


_FIELD = _Field(1)


class _Terms(ConcreteTerms):
    """noted: whether an element may overflow or be undefined."""

    noted = False

    def note(self, lanes: Lanes, *what: Any) -> None:
        self.noted = True

    def apply(self, symbol: int, shape: Any, dtype: str, *operands: Lanes, limits: Any = None) -> Value:
        op, attrs, *_ = {~k: name for name, k in self._symbols.items()}[symbol] + ((),)
        if op not in OPS:
            raise Opaque
        values = [self.field.integers(x).astype(np.int32) for x in operands]
        found = np.asarray(OPS[op].integer(dict(attrs), values, Type(values[0].shape, "INT32")))  # type: ignore[operator]
        return self.root(self.field.constants(found.astype(np.int32).astype(np.int64)), shape, dtype, limits)


def disagreement(case: Case, sample: int) -> str | None:
    """Where terms claim what the functional model does not compute; None where they claim nothing, "" where both agree.

    What is noted is claimed only of a graph that has the same note.
    """
    claimed, computed = claim(case, sample), run(case, sample)
    if claimed is None or claimed[1] and computed is None:
        return None
    numbers, _ = claimed
    if computed is None:
        return f"{numbers} where there is no result"
    return "" if np.array_equal(numbers, computed) else f"{numbers} instead of {computed}"


def claim(case: Case, sample: int) -> tuple[Ints, bool] | None:
    """What the terms are, and whether an element is noted; None where there are none."""
    c, t = case.config, _Terms(copy(_FIELD))
    memory = TermMachine(t, {CONSTANTS: len(case.constants), SCRATCH: _SIZE}, c.internal)
    memory.fill(CONSTANTS, case.constants)
    memory.fill(None, case.tables)
    for (m, fixed, _), x in zip(case.held, case.numbers(sample), strict=True):
        dtype, signed = f"INT{m.element.bits}", x.astype(f"int{m.element.bits}").astype(np.int64)
        v = t.constant(signed, dtype) if fixed else t.root(t.field.constants(signed.reshape(-1)), x.shape, dtype)
        memory.write(replace(m, element=Element(True, m.element.bits)), v)
    execution = c.commands.execution(c.core, memory)
    try:
        for command in case.commands:
            execution.step(command)
        v = memory.read(case.result)
        return t.integers(t.plain(v)).reshape(v.shape[1:]), t.noted
    except (Undecidable, Opaque, *UNKNOWN) as e:
        if isinstance(e, AssertionError) and not t.noted:
            raise
        return None


# ---- operands ------------------------------------------------------------------------------------

SIGNED = [Element(True, bits) for bits in (8, 16, 32)]
ELEMENTS = st.sampled_from([*SIGNED * 4, *(Element(False, bits) for bits in (8, 8, 16, 32))])
SCALES = st.builds(
    FixedPointScale,
    st.sampled_from([1, 1, 3, 1 << 14, 1 << 30, (1 << 30) + 1, (1 << 31) - 1]) | st.integers(0, (1 << 31) - 1),
    st.sampled_from([0, 0, 1, 14, 15, 30, 31, 32, 33, 40, 62, 63]) | st.integers(0, 63),
)


@st.composite
def zero_points(draw: st.DrawFn, element: Element) -> int:
    if element.bits == 32 and _mostly(draw):
        return 0
    low, high = Element(element.signed, min(element.bits, 16)).limits
    return draw(st.just(0) | _edges(low, high) | _edges(*Element(element.signed, 16).limits))


@st.composite
def feature_maps(draw: st.DrawFn, at: int, shape: HWC, element: Element | None = None) -> FeatureMap:
    height, width, depth = shape
    e = element or draw(ELEMENTS)
    bricks = draw(st.booleans())
    channels = -(-depth // BRICK) * BRICK if bricks else depth
    split = draw(st.integers(1, height))
    line = width * channels * e.bytes
    return FeatureMap(
        region=SCRATCH,
        bases=(at, 0, at + split * line, 0),
        height0=split,
        height1=1,
        width0=width,
        stride_y=line,
        stride_x=(BRICK if bricks else depth) * e.bytes,
        stride_c=width * BRICK * e.bytes,
        format=core.ActivationFormat.NHCWB16 if bricks else core.ActivationFormat.NHWC,
        element=e,
        zero_point=draw(zero_points(e)),
        height=height,
        width=width,
        depth=depth,
    )


SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 2, 3, 17]))


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    pad = st.sampled_from([0, 0, 0, 0, 1, 2])
    two = st.tuples(st.sampled_from([1, 1, 2, 3]), st.sampled_from([1, 1, 2, 3]))
    dilation = st.sampled_from([(1, 1)] * 5 + [(2, 1), (2, 2)])
    return Kernel(
        draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(two), draw(dilation), *(draw(pad) for _ in "tlbr")
    )


@st.composite
def windows(
    draw: st.DrawFn, kernel: Kernel, out: tuple[int, int], depth: int, upscale: core.IfmUpscaleMode
) -> FeatureMap:
    """As `Registers.window`."""
    size = (out[0], kernel.height, kernel.top + kernel.bottom), (out[1], kernel.width, kernel.left + kernel.right)
    height, width = (
        max(1, -(-((n - 1) * stride + (taps - 1) * dilation + 1 - padding) // upscale.factor))
        for (n, taps, padding), stride, dilation in zip(size, kernel.stride, kernel.dilation, strict=True)
    )
    return draw(feature_maps(_IFM, (height, width, depth)))


def _table(draw: st.DrawFn) -> bytes:
    return np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, 2048, np.uint8).tobytes()


def _bits(draw: st.DrawFn) -> int:
    return draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFF80, 0xFFFF]) | st.integers(0, 0xFFFF))


def _limits(draw: st.DrawFn, element: Element) -> tuple[int, int]:
    """Bits of a clamp: of the whole type, if that has no more than 16, or any."""
    if draw(st.booleans()):
        low, high = (k & 0xFFFF for k in Element(element.signed, min(element.bits, 16)).limits)
        return low, high
    return _bits(draw), _bits(draw)


def _scales(draw: st.DrawFn, own: bool, depth: int, bias: int, multiplier: int) -> tuple[bytes, tuple[ByteRange, ...]]:
    """Biases and scales of each channel, in 10 bytes each, and where they lie. own: whether channels have their own."""
    out = b""
    for _ in range(depth if own else 0):
        low = -1 << 8 * bias - 1
        b, s = draw(st.just(0) | _edges(low, -low - 1)), draw(SCALES)
        m = min(s.multiplier, (1 << 8 * multiplier - 1) - 1)
        out += (
            b.to_bytes(bias, "little", signed=True)
            + m.to_bytes(multiplier, "little")
            + bytes([s.shift]).ljust(10 - bias - multiplier, b"\0")
        )
    return out, (ByteRange(CONSTANTS, 0, len(out)),) if own else ()


def _operands(
    draw: st.DrawFn, mode: core.ElementwiseMode, first: Operand, shape: HWC, numbers: Callable[[Element], Any]
) -> tuple[Operand, ...]:
    """The operands of a command from its first one. numbers: those that a scalar of some type may have."""
    if mode.is_unary:
        return (first,)
    which = _choose(draw, "map", "map", "broadcast", "scalar", "the same")
    if which == "scalar":
        e = draw(ELEMENTS)
        return first, Scalar(draw(numbers(e)), e, draw(zero_points(e)))
    if which == "the same":
        return first, first
    height, width, depth = (_choose(draw, 1, n) for n in shape) if which == "broadcast" else shape
    return first, draw(feature_maps(_IFM2, (height, width, depth)))


def _maps(*operands: Operand) -> list[FeatureMap]:
    """Those operands that memory holds, each once."""
    return list(dict.fromkeys(o for o in operands if isinstance(o, FeatureMap)))


def _convolution(depthwise: bool, ifm: FeatureMap, output: Output, kernel: Kernel, **more: Any) -> Convolution:
    return Convolution(
        offset=0,
        depthwise=depthwise,
        ifm=ifm,
        output=output,
        kernel=kernel,
        order=core.WeightOrder.DEPTH_FIRST,
        decomposition=core.KernelDecomposition.D8X8,
        weights=(),
        **more,
    )


def weights_of(c: Any, *_: object) -> Ints:
    """In place of the encoded ones: many of them the largest or smallest."""
    shape = c.output.shape[2], c.kernel.height, c.kernel.width, 1 if c.depthwise else c.ifm.depth
    rng = np.random.default_rng(shape)
    return np.where(rng.random(shape) < 0.5, rng.choice([-255, -128, 0, 1, 127], shape), rng.integers(-128, 128, shape))


# ---- Ethos-U55 and U65 ---------------------------------------------------------------------------

ROUNDS = st.sampled_from(r55.RoundMode)


@st.composite
def _output55(draw: st.DrawFn, shape: HWC, own: bool, natural: bool = False) -> Output:
    m = draw(feature_maps(_OFM, shape))
    functions = [r55.ActivationFunction.RELU] * 6 + [r55.ActivationFunction.TABLE_0, r55.ActivationFunction.TABLE_3]
    ranges = [r55.ActivationClipRange.OFM_PRECISION] * 4 + list(r55.ActivationClipRange)
    chosen = draw(st.sampled_from(ranges))
    wide = draw(SCALES)
    scale = FixedPointScale(wide.multiplier * draw(st.sampled_from([1, 1, 2])), wide.shift)
    return Output(
        shape,
        m,
        None if own else draw(st.sampled_from([SAME, scale])),
        r55.RoundMode.NATURAL if natural and _mostly(draw) else draw(ROUNDS),
        Activation(draw(st.sampled_from(functions)), chosen, *_limits(draw, m.element)),
    )


def _accumulators55(draw: st.DrawFn) -> Accumulators:
    return Accumulators(draw(st.sampled_from([*r55.AccFormat, *list(r55.AccFormat)[:2] * 2])))


_BLOCK55 = Block((2, 2, 16), 0, banks=Banks(8, None, 16))


_UPSCALES = st.sampled_from([core.IfmUpscaleMode.NONE] * 3 + list(core.IfmUpscaleMode))


@st.composite
def elementwise55(draw: st.DrawFn, mode: core.ElementwiseMode) -> Case:
    shape = draw(SHAPES)
    ifm = draw(feature_maps(_IFM, shape))
    operands = _operands(draw, mode, ifm, shape, lambda e: _edges(*Element(e.signed, 16).limits))
    inputs = tuple(InputScale() for _ in operands)
    if mode in (core.ElementwiseMode.ADD, core.ElementwiseMode.SUB):
        rounding = draw(ROUNDS)
        if draw(st.booleans()):  # OPA_OPB_16
            scales = [FixedPointScale(draw(_edges(0, 0xFFFF)), 0) for _ in operands]
        else:
            built_in = FixedPointScale(1 << draw(st.sampled_from([14, 19])), 0)
            scales = draw(st.permutations([draw(SCALES), built_in]))
        inputs = tuple(InputScale(scale, rounding) for scale in scales)
    c = Elementwise(
        offset=0,
        mode=mode,
        operands=operands,
        inputs=inputs,
        upscale=core.IfmUpscaleMode.NONE,
        output=draw(_output55(shape, False, mode.name == "SHR")),
        accumulators=_accumulators55(draw),
        block=_BLOCK55,
        reversed=draw(st.booleans()) and not mode.is_unary,
    )
    return _case(draw, (U55, U65), c, _maps(*operands))


@st.composite
def pooling55(draw: st.DrawFn, mode: core.PoolingMode) -> Case:
    kernel, upscale, (height, width, depth) = draw(kernels()), draw(_UPSCALES), draw(SHAPES)
    summed = mode == core.PoolingMode.REDUCE_SUM
    ifm = draw(windows(kernel, (height, width), depth, upscale))
    own = _choose(draw, False, False, True)
    shape = height, width, 1 if summed and _mostly(draw) else depth
    output = draw(_output55(shape, own))
    records, scales = _scales(draw, own, shape[2], 5, 4)
    c = Pooling(0, mode, ifm, output, kernel, upscale, scales, _accumulators55(draw), _BLOCK55)
    return _case(draw, (U55, U65), c, [ifm], records)


@st.composite
def convolution55(draw: st.DrawFn, depthwise: bool) -> Case:
    kernel, upscale, shape = draw(kernels()), draw(_UPSCALES), draw(SHAPES)
    ifm = draw(windows(kernel, shape[:2], shape[2] if depthwise else _choose(draw, 1, 2, 5), upscale))
    records, scales = _scales(draw, True, shape[2], 5, 4)
    how = {"upscale": upscale, "scales": scales, "accumulators": _accumulators55(draw), "block": _BLOCK55}
    return _case(
        draw, (U55, U65), _convolution(depthwise, ifm, draw(_output55(shape, True)), kernel, **how), [ifm], records
    )


def _shifts(draw: st.DrawFn, c: Any) -> bool:
    return hasattr(c, "mode") and c.mode.name in ("SHL", "SHR", "LSR") and _mostly(draw, 2)


def _case(
    draw: st.DrawFn,
    configs: Sequence[Config],
    c: Any,
    held: Sequence[FeatureMap],
    constants: bytes = b"",
    *before: Any,
    result: FeatureMap | None = None,
) -> Case:
    """result: what is read in the end, if that is not what the last command writes."""
    config = draw(st.sampled_from(configs))
    tables = bytes(config.internal - 2048) + _table(draw)
    fixed = st.sampled_from([False, False, False, True])
    kept = tuple((m, draw(fixed), k == 1 and _shifts(draw, c)) for k, m in enumerate(held))
    seed = draw(st.integers(0, 1 << 16))
    return Case(config, (*before, c), kept, result or c.output.map, constants, tables, seed)


# ---- Ethos-U85 -----------------------------------------------------------------------------------


@st.composite
def _output85(draw: st.DrawFn, shape: HWC, own: bool) -> Output:
    transpose = draw(st.sampled_from([core.ActivationTranspose.HWC] * 6 + list(core.ActivationTranspose)))
    after = tuple(shape[k] for k in transpose.axes)
    m = draw(feature_maps(_OFM, after))
    ranges = [r85.ActivationClipRange.B16] * 3 + [r85.ActivationClipRange.NONE]
    functions = [r85.ActivationFunction.LUT_NONE] * 4 + [f for f, (_, result) in TABLES.items() if result == m.element]
    functions += [draw(st.sampled_from(r85.ActivationFunction))]
    function = draw(st.sampled_from(functions))
    chosen = TABLES.get(function, (m.element,))[0]
    return Output(
        shape,
        m,
        None if own else draw(st.sampled_from([SAME]) | SCALES),
        draw(st.sampled_from([core.Rounding.NATURAL, core.Rounding.TRUNCATE_TO_LOWER] * 2 + list(core.Rounding))),
        Activation(function, draw(st.sampled_from(ranges)), *_limits(draw, chosen), 0),
        transpose,
        draw(st.sampled_from([core.ActivationReverse.NONE] * 6 + list(core.ActivationReverse))),
    )


_BLOCK85 = Block((2, 2, 16), 0, (2, 2))
_RESET = Accumulators(r85.AccFormat.I32, core.AccInput.RESET, True)


def _accumulators(draw: st.DrawFn, *inputs: core.AccInput) -> Accumulators:
    chosen = _choose(draw, *[core.AccInput.RESET] * 4, *inputs)
    return Accumulators(draw(st.sampled_from(r85.AccFormat)), chosen, True)


def _scales85(draw: st.DrawFn, own: bool, depth: int, how: Accumulators) -> tuple[bytes, tuple[ByteRange, ...]]:
    return _scales(draw, own, depth, *((6, 2) if how.format == r85.AccFormat.I48 else (4, 4)))


def _kept(how: Accumulators) -> Accumulators:
    """Those of the command before, which keeps them."""
    return Accumulators(how.format, core.AccInput.RESET, False)


def _input(draw: st.DrawFn) -> InputScale:
    scale = draw(st.just(SAME) | SCALES)
    return InputScale(scale, draw(st.sampled_from(r85.RoundModeIfm)), draw(st.sampled_from([0, 0, 0, 4, 11, 31])))


@st.composite
def elementwise85(draw: st.DrawFn, mode: core.ElementwiseMode, chained: bool = False) -> Case:
    """chained: whether the first operand comes from another command."""
    shape, before = draw(SHAPES), ()
    ifm = draw(feature_maps(_IFM, shape))
    first: Operand = ifm
    if chained:
        out = draw(_output85(shape, False))
        shape = tuple(shape[k] for k in out.transpose.axes)
        link = Chained(3, out.map.element, draw(zero_points(out.map.element)))
        move, inputs = core.ElementwiseMode.MAX, (_input(draw),) * 2
        moved = replace(out, map=link)
        before = (Elementwise(0, move, (ifm, ifm), inputs, core.IfmUpscaleMode.NONE, moved, _RESET, _BLOCK85),)
        first = Chained(3, link.element, draw(zero_points(link.element)))
    numbers = _edges(-(1 << 31), (1 << 31) - 1) | _edges(0, 31)
    operands = _operands(draw, mode, first, shape, lambda e: numbers)
    scaled = mode.name in ("ADD", "SUB", "MIN", "MAX") or not _mostly(draw, 8)
    same = InputScale(SAME, r85.RoundModeIfm.NATURAL, 0)
    c = Elementwise(
        0,
        mode,
        operands,
        tuple(_input(draw) if scaled else same for _ in operands),
        core.IfmUpscaleMode.NONE,
        draw(_output85(shape, False)),
        _accumulators(draw),
        _BLOCK85,
    )
    return _case(draw, (U85,), c, _maps(ifm, *operands), b"", *before)


@st.composite
def pooling85(draw: st.DrawFn, mode: core.PoolingMode) -> Case:
    kernel, upscale, (height, width, depth) = draw(kernels()), draw(_UPSCALES), draw(SHAPES)
    is_place = mode.name.startswith("ARGMAX")
    if is_place and _mostly(draw, 2):
        size = (1, kernel.width) if mode == core.PoolingMode.ARGMAX_X else (kernel.height, 1)
        kernel = Kernel(*size, kernel.stride, kernel.dilation, 0, 0, 0, 0)
    ifm = draw(windows(kernel, (height, width), depth, upscale))
    own = _choose(draw, False, False, True)
    shape = height, width, 1 if mode == core.PoolingMode.REDUCE_SUM else depth
    accumulators = _accumulators(draw, core.AccInput.IFM2, core.AccInput.KEEP)
    records, scales = _scales85(draw, own, shape[2], accumulators)
    start = draw(feature_maps(_IFM2, shape)) if accumulators.input == core.AccInput.IFM2 else None
    output = draw(_output85(shape, own))
    if is_place and _mostly(draw, 2):
        output = replace(output, scale=FixedPointScale(1, 16), rounding=core.Rounding.TRUNCATE_TO_LOWER)
    c = Pooling(0, mode, ifm, output, kernel, upscale, scales, accumulators, _BLOCK85, start)
    before = (replace(c, mode=core.PoolingMode.SUM, accumulators=_kept(accumulators)),)
    before = before if accumulators.input == core.AccInput.KEEP else ()
    return _case(draw, (U85,), c, [ifm, *([start] if start else [])], records, *before)


@st.composite
def convolution85(draw: st.DrawFn, depthwise: bool, matrices: bool = False) -> Case:
    kernel, upscale, shape = draw(kernels()), draw(_UPSCALES), draw(SHAPES)
    if matrices and _mostly(draw):
        kernel, upscale = _ONE, core.IfmUpscaleMode.NONE
    ifm = draw(windows(kernel, shape[:2], shape[2] if depthwise else _choose(draw, 1, 2, 5), upscale))
    own = _choose(draw, False, True, True)
    accumulators = _accumulators(draw, *() if matrices else (core.AccInput.IFM2, core.AccInput.KEEP))
    records, scales = _scales85(draw, own, shape[2], accumulators)
    second = None
    if matrices or accumulators.input == core.AccInput.IFM2:
        second = draw(feature_maps(_IFM2, (1, shape[2], ifm.depth) if matrices else shape))
    more = {"upscale": upscale, "scales": scales, "accumulators": accumulators, "block": _BLOCK85}
    more |= {"ifm2": second, "matrices": matrices, "format": core.WeightFormat.SWD}
    c = _convolution(depthwise, ifm, draw(_output85(shape, own)), kernel, **more)
    before = (replace(c, accumulators=_kept(accumulators)),) if accumulators.input == core.AccInput.KEEP else ()
    return _case(draw, (U85,), c, [ifm, *([second] if second else [])], records, *before)


def _axis(draw: st.DrawFn, most: int) -> ResizedAxis:
    scale = draw(st.integers(1, 5))
    return draw(_edges(-most, most)), draw(st.integers(0, 2)) * scale + draw(st.integers(0, scale)), scale


@st.composite
def resize85(draw: st.DrawFn, mode: core.ResizeMode) -> Case:
    ifm, shape = draw(feature_maps(_IFM, draw(SHAPES))), draw(SHAPES)
    out = draw(_output85((*shape[:2], ifm.depth), False))
    how = _accumulators(draw)
    return _case(draw, (U85,), Resize(0, mode, ifm, out, _axis(draw, 6), _axis(draw, 6), how, _BLOCK85), [ifm])


# ---- copies --------------------------------------------------------------------------------------


@st.composite
def copies(draw: st.DrawFn, configs: Sequence[Config], indexed: bool = False) -> Case:
    """Of bytes that are read as elements of any size."""
    m, before = (draw(feature_maps(at, (4, 4, 8), Element(True, 8))) for at in (_IFM, _OFM))
    length, sizes = draw(st.integers(1, 9)), (draw(st.integers(1, 3)), draw(st.integers(1, 4)))

    def side(address: int, indexed: bool) -> DmaSide:
        return DmaSide(SCRATCH, address, (draw(st.integers(0, 30)), draw(st.integers(0, 12))), indexed)

    chosen = _choose(draw, (True, False), (False, True), (True, True)) if indexed else (False, False)
    source, destination = side(draw(st.integers(0, 8)), chosen[0]), side(draw(st.sampled_from([_OFM, 4])), chosen[1])
    numbers = np.array([draw(st.integers(-1, 4)) for _ in range(16)], np.int32).tobytes()
    c = Dma(0, length, sizes, source, destination, Indices(CONSTANTS, 0, 3, 4) if indexed else None)
    whole = draw(feature_maps(draw(st.sampled_from([_OFM, 4])), (2, 2, 3), Element(True, 8)))
    return _case(draw, configs, c, [m, before], numbers, result=whole)


KINDS: dict[str, st.SearchStrategy[Case]] = {
    **{f"U55 {m.name}": elementwise55(m) for m in map(core.ElementwiseMode, r55.ElementwiseMode)},
    **{f"U55 {m.name}_POOL": pooling55(m) for m in map(core.PoolingMode, r55.PoolingMode)},
    **{f"U55 {name}": convolution55(k) for name, k in (("CONV", False), ("DEPTHWISE", True))},
    "U55 DMA": copies((U55, U65)),
    **{f"U85 {m.name}": elementwise85(m) for m in core.ElementwiseMode},
    **{
        f"U85 chained {name}": elementwise85(core.ElementwiseMode[name], True)
        for name in ("ADD", "MUL", "MAX", "SHR", "NOT")
    },
    **{f"U85 {m.name}_POOL": pooling85(m) for m in core.PoolingMode},
    **{f"U85 {name}": convolution85(k) for name, k in (("CONV", False), ("DEPTHWISE", True))},
    "U85 MATMUL": convolution85(False, True),
    **{f"U85 RESIZE_{m.name}": resize85(m) for m in core.ResizeMode},
    "U85 DMA": copies((U85,)),
    "U85 DMA by indices": copies((U85,), True),
}


# ---- single ones ---------------------------------------------------------------------------------


def _plain(at: int, element: Element, size: tuple[int, int] = (1, 1), zero_point: int = 0) -> FeatureMap:
    """A feature map of one channel."""
    (height, width), b = size, element.bytes
    strides = width * b, b, b
    return FeatureMap(
        SCRATCH, (at, 0, 0, 0), height, 1, width, *strides, core.ActivationFormat.NHWC, element, zero_point, *size, 1
    )


def _single(config: Config, held: FeatureMap, result: FeatureMap, *commands: Any) -> Case:
    return Case(config, commands, ((held, False, False),), result, b"", bytes(config.internal))


def pool55(
    mode: core.PoolingMode,
    element: Element,
    kernel: Kernel = _ONE,
    upscale: core.IfmUpscaleMode = core.IfmUpscaleMode.NONE,
    zero_point: int = 0,
) -> Case:
    """A pooling of one element to one."""
    ifm, ofm = (_plain(at, element, zero_point=zero_point) for at in (_IFM, _OFM))
    activation = Activation(r55.ActivationFunction.RELU, r55.ActivationClipRange.OFM_PRECISION, 0x8000, 0x7FFF)
    scale = SAME if kernel.padded else FixedPointScale(1 << 30, 30)  # a padded average has its own
    output = Output((1, 1, 1), ofm, scale, r55.RoundMode.NATURAL, activation)
    c = Pooling(0, mode, ifm, output, kernel, upscale, (), Accumulators(r55.AccFormat.I32), _BLOCK55)
    return _single(U55, ifm, ofm, c)


def _out85(element: Element, scale: FixedPointScale = SAME, rounding: core.Rounding = core.Rounding.NATURAL) -> Output:
    none = Activation(r85.ActivationFunction.LUT_NONE, r85.ActivationClipRange.NONE, 0, 0)
    ofm = _plain(_OFM, element)
    return Output((1, 1, 1), ofm, scale, rounding, none)


def pool85(
    mode: core.PoolingMode,
    element: Element,
    size: tuple[int, int] = (1, 1),
    kernel: Kernel | None = None,
    upscale: core.IfmUpscaleMode = core.IfmUpscaleMode.NONE,
    result: Element | None = None,
) -> Case:
    """A pooling of one window, or of all of an input, to one element."""
    ifm = _plain(_IFM, element, size)
    scaled = (FixedPointScale(1, 16), core.Rounding.TRUNCATE_TO_LOWER) if mode.name.startswith("ARGMAX") else ()
    output = _out85(result or element, *scaled)
    kernel = kernel or Kernel(*size, (1, 1), (1, 1), 0, 0, 0, 0)
    c = Pooling(0, mode, ifm, output, kernel, upscale, (), _RESET, _BLOCK85)
    return _single(U85, ifm, output.map, c)


def and85(element: Element, zero_point: int) -> Case:
    """The bitwise AND of one element with itself."""
    ifm, same = _plain(_IFM, element, zero_point=zero_point), InputScale(SAME, r85.RoundModeIfm.NATURAL, 0)
    out = _out85(element)
    mode, none = core.ElementwiseMode.AND, core.IfmUpscaleMode.NONE
    c = Elementwise(0, mode, (ifm, ifm), (same, same), none, out, _RESET, _BLOCK85)
    return _single(U85, ifm, out.map, c)


def row85(element: Element, width: int) -> Case:
    """A row of elements of one channel, which is the result too."""
    m = _plain(_IFM, element, (1, width))
    return _single(U85, m, m)
