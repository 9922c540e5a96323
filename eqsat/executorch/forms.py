"""Operators in forms that Arm's partitioner accepts, which compute the same.

Movements between a DEQUANTIZE and a QUANTIZE with equal parameters are exact, where these give integers back.
Source: executorch 1.5, backends/arm/operator_support.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch.export import ExportedProgram
from torch.fx import Node

from eqsat.executorch.nodes import (
    QParams,
    append,
    arguments,
    is_dequantize,
    is_quantize,
    operand,
    qparams,
    shape_of,
    with_own_graph,
    without_mutation,
)
from eqsat.executorch.session import EqsatWarning, compile_spec_of
from eqsat.executorch.tables import Constants, fold_constants

logger = logging.getLogger(__name__)

#: Rewrites one node of a program with given constants, if it has to be, and tells whether it did.
Rewrite = Callable[[Node, Constants], bool]

#: Most elements of a summed axis, and of the axes before or behind it.
_MOST = 65536
_SUM, _PAD = torch.ops.aten.sum.dim_IntList, torch.ops.aten.pad.default
_FLIP, _ARGMAX = torch.ops.aten.flip.default, torch.ops.aten.argmax.default
_CONVOLUTIONS = (torch.ops.aten.conv1d.default, torch.ops.aten.conv2d.default)
#: Dtypes of which every value less a zero point is a float32 number.
_SMALL = (torch.int8, torch.uint8, torch.int16)
#: Scales with which products of integers of 17 bits are normal float32 numbers.
_SCALES = (1e-30, 1e30)
#: Largest stride of a convolution that may pad.
_LARGEST_STRIDE = 3
#: Operators of views and permutes; a view is a reshape, since a permuted value need not be contiguous.
_VIEW, _PERMUTE = torch.ops.aten.reshape.default, torch.ops.aten.permute.default


def fits(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether Arm's partitioner accepts a sum over `axes` on U55 and U65."""
    return all(max(shape[a], prod(shape[:a]), prod(shape[a + 1 :])) <= _MOST for a in axes)


def split(kept: Sequence[int], summed: int) -> tuple[int, int, int, int] | None:
    """Returns sizes (before, summed, summed, behind) for which the sum over the middle axes fits, or None.

    kept: sizes of the axes that stay, in order. summed: number of elements that are summed.
    The first size is a product of the first kept axes and of a part of the next one.
    """
    total = prod(kept)
    for front in _fronts(kept):
        for first in _divisors(summed):
            if fits((front, first, summed // first, total // front), (1, 2)):
                return front, first, summed // first, total // front
    return None


def _fronts(kept: Sequence[int]) -> Iterator[int]:
    """Yields possible first sizes: products of whole axes, which need no view, and then with a part of the next."""
    yield from (prod(kept[:k]) for k in range(len(kept) + 1))
    for k, size in enumerate(kept):
        yield from (prod(kept[:k]) * part for part in _divisors(size))


def _divisors(n: int) -> list[int]:
    small = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    return [*small, *(n // k for k in reversed(small) if k * k != n)]


def rewrite(program: ExportedProgram, rewrites: Sequence[Rewrite]) -> ExportedProgram:
    """Returns a program, which may be modified, after each rewrite of all of its nodes."""
    new = without_mutation(program)
    constants, changed = Constants(new), 0
    for rewrite in rewrites:
        found = sum(rewrite(n, constants) for n in list(new.graph.nodes))
        logger.info("%s: %d operators", rewrite.__name__, found)
        changed += found
    if not changed:
        return program
    new.graph.eliminate_dead_code()
    new.graph_module.recompile()
    return new


def reshape_flip(node: Node, _constants: Constants) -> bool:
    """Writes a quantized flip as flips of one axis each, of a view with that axis as the third of four.

    Those of the second or third of four axes are accepted as they are.
    """
    if node.target is not _FLIP or not _is_quantized(node):
        return False
    value, shape = operand(node), shape_of(node)
    axes = [a % len(shape) for a in arguments(node)["dims"]]
    if len(shape) == 4 and axes in ([1], [2]):
        return False
    write = _Writer(node, value)
    for a in axes:
        view = write.move(_VIEW, value, [1, prod(shape[:a]), shape[a], prod(shape[a + 1 :])])
        value = write.quantize(write.call(_FLIP, view, [2]), value)
    node.replace_all_uses_with(write.call(_VIEW, value, list(shape)))
    return True


def pad_outside(node: Node, _constants: Constants) -> bool:
    """Pads before a convolution that pads and has a stride above 3, with the zero point.

    Vela compiles no depthwise convolution of such a stride, with or without padding.
    """
    if node.target not in _CONVOLUTIONS:
        return False
    given, source = arguments(node), operand(node)
    if given["groups"] > 1 and given["groups"] == shape_of(source)[1]:
        return False
    pads = not isinstance(given["padding"], str) and any(given["padding"])
    if max(given["stride"]) <= _LARGEST_STRIDE or not pads or not _keeps_integers(source):
        return False
    rank = len(shape_of(source)) - 2
    padding = [*given["padding"], *given["padding"] * (rank - len(given["padding"]))]
    around = [p for p in reversed(padding) for _ in range(2)]
    write = _Writer(node, source)
    padded = write.quantize(write.call(_PAD, source, around), source)
    node.args, node.kwargs = tuple({**given, "input": padded, "padding": [0] * rank}.values()), {}
    return True


def _is_quantized(node: Node) -> bool:
    """Whether an operator lies between a DEQUANTIZE and QUANTIZEs with equal parameters, which can be repeated."""
    parameters = {qparams(u) if is_quantize(u) else None for u in node.users}
    return _keeps_integers(operand(node)) and len(parameters) == 1 and all(map(_is_exact, parameters))


def _is_exact(parameters: QParams | None) -> bool:
    """Whether different integers within the limits have different floats, of which a QUANTIZE makes them again."""
    if parameters is None:
        return False
    scale, zero, low, high, dtype = parameters
    return dtype in _SMALL and _SCALES[0] < scale < _SCALES[1] and low <= zero <= high


def _keeps_integers(node: Node) -> bool:
    """Whether a node is a DEQUANTIZE of whose floats a QUANTIZE with equal parameters makes its integers again.

    It does not limit them itself, so limits narrower than the dtype's are those of a QUANTIZE before it.
    """
    parameters = qparams(node) if is_dequantize(node) else None
    if parameters is None or not _is_exact(parameters):
        return False
    dtype, source = torch.iinfo(parameters[4]), operand(node)
    return parameters[2:4] == (dtype.min, dtype.max) or is_quantize(source) and qparams(source) == parameters


def reshape_sum(node: Node, _constants: Constants) -> bool:
    """Writes a quantized sum that does not fit, such as a mean, with the summed axes in the middle, if it can.

    It becomes a permute if needed, a view, a sum over two axes, and a view.
    The NPU sums integers; PyTorch rounds a sum of floats in the order of its memory, so that one there may differ by a
    unit where it lies next to a half.
    """
    if node.target is not _SUM or not _is_quantized(node):
        return False
    given, source = arguments(node), operand(node)
    if given["dtype"] not in (None, source.meta["val"].dtype):  # it sums in another precision
        return False
    shape = shape_of(source)
    axes = sorted({a % len(shape) for a in (given["dim"] or range(len(shape)))})
    if not all(isinstance(s, int) for s in shape) or fits(shape, axes):
        return False
    others = [a for a in range(len(shape)) if a not in axes]
    sizes = split([shape[a] for a in others], prod(shape[a] for a in axes))
    if sizes is None:
        return False
    write = _Writer(node, source)
    front = sizes[0]
    at = next((k for k in range(len(others) + 1) if prod(shape[a] for a in others[:k]) == front), None)
    if at is None:  # an axis is cut, so the kept axes become two first
        moved = write.move(_PERMUTE, source, [*axes, *others])
        parts = write.move(_VIEW, moved, [prod(shape[a] for a in axes), front, sizes[3]])
        middle = write.move(_PERMUTE, parts, [1, 0, 2])
    else:
        middle = write.move(_PERMUTE, source, [*others[:at], *axes, *others[at:]])
    flat = write.move(_VIEW, middle, list(sizes))
    summed = write.quantize(write.call(_SUM, flat, [1, 2], True), next(iter(node.users)))
    node.replace_all_uses_with(write.call(_VIEW, summed, list(shape_of(node))))
    return True


def integer_argmax(node: Node, _constants: Constants) -> bool:
    """Has an argmax of a dequantized tensor read the integers, whose floats differ wherever they do.

    Vela fails on it for U55 and U65.
    """
    if node.target is not _ARGMAX or not (is_dequantize(operand(node)) and _is_exact(qparams(operand(node)))):
        return False
    node.update_arg(0, operand(operand(node)))
    return True


#: The rewrites for Ethos-U55 and U65, and those for U85.
FOR_U55: tuple[Rewrite, ...] = (reshape_sum, reshape_flip, pad_outside)
FOR_U85: tuple[Rewrite, ...] = (integer_argmax,)


def use_accepted_forms(program: ExportedProgram, compile_spec: EthosUCompileSpec, *more: Rewrite) -> ExportedProgram:
    """Returns a program in which operators have forms that Arm's partitioner accepts; the given one may be modified.

    Constants that ExecuTorch cannot compute are computed.
    """
    rewrites = FOR_U55 if compile_spec.tosa_spec.is_U55_subset else FOR_U85
    return rewrite(fold_constants(program), [*rewrites, *more])


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """The report of `optimize`.

    reason: why the program was left as it was; "" if it changed.
    """

    reason: str = ""

    @property
    def changed(self) -> bool:
        """Whether the program is another one."""
        return not self.reason


def optimize(program: ExportedProgram, *, target: str | EthosUCompileSpec) -> tuple[ExportedProgram, ProgramReport]:
    """Returns a program of which more can run on the NPU if it is lowered without eqsat, and a report.

    >>> program, report = eqsat.optimize(exported_program, target="ethos-u55-128")
    >>> edge = to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)])

    Operators that Arm's partitioner refuses are written in forms that it accepts, with equal outputs on the NPU.
    PyTorch itself may round a sum of floats in another order (`reshape_sum`).
    A lowering with eqsat does this by itself.
    program: quantized (PT2E), at ATen level, with fixed shapes; it is not modified.
    It is returned if there is nothing to change, or, with an EqsatWarning, if something failed.
    target: an accelerator ("ethos-u55-128") or a compile spec.

    Raises TypeError for other kinds of programs and targets, TargetError for an unknown target.
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"expected an ExportedProgram, got {type(program).__name__}")
    spec = compile_spec_of(target)
    try:
        new = use_accepted_forms(with_own_graph(program), spec)
    except Exception as e:  # noqa: BLE001 - never worse: any failure leaves the program as it was
        reason = f"{type(e).__name__}: {e}"
        warnings.warn(f"the program was left as it is: {reason}", EqsatWarning, stacklevel=2)
        return program, ProgramReport(reason)
    if str(new.graph) == str(program.graph):
        return program, ProgramReport("no operator needs another form")
    return new, ProgramReport()


class _Writer:
    """Writes nodes before another one, with its module and trace, that move a dequantized source."""

    def __init__(self, node: Node, source: Node) -> None:
        self.node, self.source = node, source

    def call(self, target: Any, *args: Any) -> Node:
        with self.node.graph.inserting_before(self.node):
            return append(self.node.graph, target, *args, meta=self.node.meta)

    def move(self, target: Any, value: Node, how: list[int]) -> Node:
        """Returns a movement with its QUANTIZE and DEQUANTIZE, or the value itself if nothing moves."""
        shape = shape_of(value)
        if tuple(how) == (shape if target is _VIEW else tuple(range(len(shape)))):
            return value
        return self.quantize(self.call(target, value, how), self.source)

    def quantize(self, value: Node, like: Node) -> Node:
        """Returns a value quantized and dequantized with the parameters of another QUANTIZE or DEQUANTIZE."""
        ops = torch.ops.quantized_decomposed
        integers = self.call(ops.quantize_per_tensor.default, value, *like.args[1:])
        return self.call(ops.dequantize_per_tensor.default, integers, *like.args[1:])
