"""The interface between commands and the values that they compute with.

What a family's commands do is written once, for any machine (`eqsat/device/ethos_u55/execution.py`, for example).
The functional model computes with numbers (`numbers.py`), a proof with terms (`eqsat/proof/binary_machine.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import ByteRange, Dma, Element, FeatureMap, Kernel, ResizedAxis
from eqsat.device.core.registers import IfmUpscaleMode, Rounding
from eqsat.target.family import HWC
from eqsat.tensor import makers
from eqsat.tensor.types import Array, Attrs, Shape, attrs_of

#: TOSA's operators that elementwise operations compute without a limit; the others compute with words of 32 bits.
UNLIMITED = frozenset({"add", "sub", "mul", "minimum", "maximum", "equal", "greater_equal", "greater", "cmp_ne"})
#: Comparisons among them.
COMPARISONS = frozenset({"equal", "greater_equal", "greater", "cmp_ne"})
#: {mode of an elementwise operation: TOSA's operator, its attributes}; TOSA does not have `cmp_ne` and `and_not`.
_OPERATORS: Mapping[str, tuple[str, Attrs]] = {
    "ADD": ("add", ()),
    "SUB": ("sub", ()),
    "MUL": ("mul", makers.mul()),
    "MIN": ("minimum", makers.extremum()),
    "MAX": ("maximum", makers.extremum()),
    "CMP_EQ": ("equal", ()),
    "CMP_NE": ("cmp_ne", ()),
    "CMP_GE": ("greater_equal", ()),
    "CMP_GT": ("greater", ()),
    "AND": ("bitwise_and", ()),
    "AND_NOT": ("and_not", ()),
    "OR": ("bitwise_or", ()),
    "XOR": ("bitwise_xor", ()),
    "NOT": ("bitwise_not", ()),
    "SHL": ("logical_left_shift", ()),
    "LSR": ("logical_right_shift", ()),
    "DIV": ("intdiv", ()),
    "ABS": ("abs", ()),
    "CLZ": ("clz", ()),
}
#: The attribute `round` of ARITHMETIC_RIGHT_SHIFT, by the name of the output's rounding.
_SHIFTS = {"TRUNCATE_TO_LOWER": False, "NATURAL": True}


class Shaped(Protocol):
    """A value of shape [..., height, width, depth]."""

    @property
    def shape(self) -> Shape: ...


V = TypeVar("V", bound=Shaped)
V_co = TypeVar("V_co", bound=Shaped, covariant=True)


class Window(Protocol[V_co]):
    """A kernel that moves over an upscaled input without its zero point."""

    def convolve(self, weights: Array, depthwise: bool) -> V_co:
        """Returns the sums of products with weights [out, height, width, in]."""

    def sum(self) -> V_co:
        """Returns the sum of each window for each channel."""

    def sum_over_depth(self) -> V_co:
        """Returns the sum of each window over all channels."""

    def extremum(self, kind: str) -> V_co:
        """Returns the maximum ("max") or minimum ("min") of each window."""

    def first_largest(self) -> V_co:
        """Returns the index of the first maximum of each window, which neither is upscaled nor reaches the padding."""

    def counts(self) -> Array:
        """Returns how many elements each window sees, [1, height, width, 1]. Raises DeviceError if one sees none."""


class Machine(Protocol[V]):
    """Memory, and the arithmetic on the values in it.

    A value that is read has the type of its elements, any other has no limit.
    Each method raises DeviceError for what the machine does not know or cannot hold.
    Those of terms also raise Undecidable (`eqsat/proof/steps.py`).

    internal: bytes of the NPU's own memory.
    writer: number of the command that runs.
    sources: numbers of the commands that wrote what it has read.
    """

    internal: int
    writer: int
    sources: set[int]

    def constant(self, place: ByteRange) -> bytes:
        """Returns the bytes of a range that do not depend on the inputs."""

    def read(self, m: FeatureMap) -> V: ...

    def write(self, m: FeatureMap, v: V) -> None: ...

    def move(self, source: FeatureMap, destination: FeatureMap) -> None:
        """Copies a feature map to another of the same type."""

    def copy(self, c: Dma) -> None:
        """Copies pieces, all of which are read before one is written."""

    def number(self, value: int) -> V:
        """Returns one number of 32 bits, [1, 1, 1, 1]."""

    def zeros(self, shape: HWC) -> V: ...

    def operand(self, v: V, zero_point: int, op: str) -> V:
        """Returns the operand of an operator, without its zero point."""

    def window(self, m: FeatureMap, kernel: Kernel, out: tuple[int, int], upscale: IfmUpscaleMode) -> Window[V]:
        """Returns a window that takes positions (height, width) `out`."""

    def product(self, first: FeatureMap, second: FeatureMap, shape: HWC) -> V:
        """Returns the product of two matrices; a row of the second has the weights of one output channel."""

    def resize(self, m: FeatureMap, bilinear: bool, y: ResizedAxis, x: ResizedAxis, shape: HWC) -> V:
        """Returns a feature map resized as by TOSA's RESIZE, in its units (`operands.Resize`)."""

    def apply(self, op: str, attrs: Attrs, operands: Sequence[V], shape: HWC) -> V:
        """Returns the result of a pointwise operator (`operator_of`)."""

    def plus(self, v: V, summand: Array | int) -> V: ...

    def times(self, v: V, factor: int) -> V: ...

    def scale(self, v: V, multiplier: Array | int, shift: Array | int, rounding: Rounding, double: int = 0) -> V:
        """Returns v * multiplier / 2**shift, rounded; double: see `InputScale`."""

    def mean(self, v: V, counts: Array) -> V:
        """Returns sums divided by counts, a half rounded away from zero."""

    def recognize(self, v: V) -> V:
        """Returns quotients in a form in which equal ones are the same."""

    def hold(self, v: V, bits: int) -> V:
        """Returns sums unchanged, which accumulators of these bits must be able to hold."""

    def clip(self, v: V, element: Element, low: int, high: int) -> V:
        """Returns values clipped to low..high; `element`: the type that has these limits."""

    def look_up(self, v: V, chosen: Element, result: Element, table: bytes) -> V:
        """Returns the entries of a table (`arithmetic.look_up`)."""

    def fitting(self, v: V, element: Element) -> V:
        """Returns results in their type, which must be able to hold them."""

    def turn(self, v: V, flipped: int | None, axes: tuple[int, ...]) -> V:
        """Returns values reversed along an axis, and then with these axes of [height, width, depth]."""


def operator_of(mode: str, rounding: str) -> tuple[str, Attrs]:
    """Returns TOSA's operator for the mode of an elementwise operation, and its attributes.

    rounding: the name of the output's rounding, which SHR uses.
    Raises DeviceError if the model does not know the mode or the rounding.
    """
    if mode == "SHR":  # the two roundings that Vela sets (`graphir_optimiser.cpp`, ConvertAttributes)
        if rounding not in _SHIFTS:
            raise DeviceError(f"the model does not know how SHR rounds with {rounding}")
        return "arithmetic_right_shift", attrs_of({"round": _SHIFTS[rounding]})
    if mode not in _OPERATORS:
        raise DeviceError(f"the model does not know {mode}")
    return _OPERATORS[mode]
