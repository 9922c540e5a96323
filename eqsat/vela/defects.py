"""Graphs that Vela compiles wrongly: one record per defect.

A defect that a new version mends gets an `until`; one that it introduces gets a record here.
`python -m benchmarks.vela_defects` has the smallest graph of each, and reports where the installed version differs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from eqsat.target import Family
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import DType
from eqsat.vela import patterns
from eqsat.vela.facts import Version, numbers, version
from eqsat.vela.patterns import Operator, Places


@dataclass(frozen=True, slots=True)
class Guard:
    """A remedy: a graph with the defect replaces another only if its binary was found to be right.

    words: the defect in words, for users
    places: finds the defect in a graph
    operator: tells whether an operator has the defect, by itself or with some readers
    factor: factor of the price of such an operator; inf forbids it
    """

    words: str
    places: Places
    operator: Callable[[Operator], bool] | None = None
    factor: float = math.inf


@dataclass(frozen=True, slots=True)
class Copy:
    """A remedy: the last node of a place reads a copy of the first one's result in its stead.

    A place of one node is an output that is copied.
    by_table: whether all readers of the first node read a TABLE that leaves every value as it is; only of INT8
    """

    places: Places
    by_table: bool = False


Remedy = Guard | Copy
_R = TypeVar("_R", Guard, Copy)


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of Vela.

    name: that of its smallest graph, a function of `benchmarks/vela_defects.py`
    families: the families that have it, by `Family.commands`
    patterns: where it may be in other graphs (`benchmarks/device/explain.py`), ", " between; empty
        if random graphs have not met it
    since: the first version that has it; None: all that were tried
    until: the first later version that does not have it; None: it is in all that were tried
    remedy: what keeps it out of results; None: only running their binaries does
    seen: whether binaries show it on the functional model; if not, others reported it
    """

    name: str
    families: tuple[int, ...]
    patterns: str = ""
    since: Version | None = None
    until: Version | None = None
    remedy: Remedy | None = None
    seen: bool = True

    def is_in(self, family: Family, vela: str) -> bool:
        """Whether a version has it on a family; a version that was not tried counts like the nearest that was."""
        at = numbers(vela)
        return (
            family.commands in self.families
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


#: Families by `Family.commands`.
_U55_U65, _U85, _ALL = (1,), (2,), (1, 2)
#: Ops with BOOL results, for patterns.
_COMPARISONS = "equal|greater|greater_equal|reduce_all|reduce_any|logical_and|logical_not|logical_or|logical_xor"
#: Ops that run as a maximum or in a similar way, for patterns.
_MAXIMA = "max_pool2d|maximum|select|reduce_max|reduce_min|bitwise_not"

DEFECTS: tuple[Defect, ...] = (
    # first, because its graphs contain patterns of others, too
    Defect("minimum_beside_another_shape", _U55_U65, "reduce_min + reshape|transpose"),
    Defect(
        "equal_weights",
        _ALL,
        remedy=Guard(
            "convolutions of equal weights and scales with other biases (Vela gives them the first one's)",
            patterns.equal_weights,
        ),
    ),
    Defect(
        "activation_of_several_images",
        _ALL,
        "conv2d > rescale > clamp|table",
        until=(5, 2),
        remedy=Guard(
            "a pointwise convolution of several images with an activation behind it (Vela mixes them up)",
            partial(patterns.find_activated, wanted=patterns.is_pointwise_of_images),
            patterns.is_pointwise_of_images,
            factor=4.0,
        ),
    ),
    Defect(
        "activation_of_reduced_images",
        _ALL,
        "reduce_max|reduce_min > clamp|table, reduce_sum > rescale > clamp|table",
        until=(5, 2),
        remedy=Guard(
            "a reduction of several images with an activation behind it (Vela mixes them up)",
            partial(patterns.find_activated, wanted=patterns.is_reduction_of_images),
            patterns.is_reduction_of_images,
            factor=4.0,
        ),
    ),
    Defect(
        "lost_output",
        _ALL,
        "transpose|reshape > transpose, reshape > transpose > transpose, reshape > transpose > table > transpose",
        remedy=Copy(patterns.lost_outputs),
    ),
    Defect(
        "wide_rescale",
        _U55_U65,
        seen=False,
        remedy=Guard(
            "RESCALE from INT32 to INT32 (Vela emits zeros on U55)", patterns.wide_rescales, patterns.is_wide_rescale
        ),
    ),
    Defect("sum_with_itself", _U55_U65, seen=False),
    Defect("sum_of_equal_scales", _U55_U65, seen=False),
    Defect("sum_of_large_scales", _U55_U65, seen=False),
    Defect(
        "sum_of_unlike_integers",
        _U55_U65,
        "rescale > add|sub > rescale",
        remedy=Guard(
            "a sum of operands that RESCALEs multiply by different integers (Vela scales it wrongly)",
            patterns.sums_of_unlike_integers,
        ),
    ),
    Defect(
        "shared_rescale",
        _U55_U65,
        seen=False,
        remedy=Guard(
            "one RESCALE to INT32 read by several operators (executorch issue 21415)", patterns.shared_rescales
        ),
    ),
    Defect("shared_rescale_of_unlike_readers", _U55_U65, seen=False),
    Defect("shared_rescale_of_a_mean", _U55_U65, seen=False),
    Defect("scaled_maximum", _U55_U65, "max_pool2d|reduce_max > rescale", until=(5, 2)),
    Defect("padded_convolution_of_a_slice", _ALL, "slice > conv2d|depthwise_conv2d|avg_pool2d|max_pool2d"),
    Defect("wide_rescale_of_a_slice", _U55_U65, "slice > rescale:INT32", since=(5, 2)),
    Defect(
        "narrow_rescale_of_a_slice",
        _U55_U65,
        since=(5, 2),
        remedy=Copy(patterns.narrow_rescales_of_slices),
    ),
    Defect("wide_rescale_of_a_pad", _U55_U65, "pad > rescale:INT32", since=(5, 2)),
    Defect("constant_first", _U55_U65, "add|sub|mul|maximum|minimum:INT32"),
    Defect("unsigned_rescale", _ALL, "rescale > rescale", since=(5, 2)),
    Defect("transposed_convolution_with_output_padding", _U55_U65, "transpose_conv2d", since=(5, 2)),
    Defect(
        "maximum_of_a_slice",
        _ALL,
        "slice > reduce_max|reduce_min, reduce_max|reduce_min > concat|pad",
        remedy=Copy(partial(patterns.readers_of_slices, ops=("reduce_max", "reduce_min"))),
    ),
    Defect(
        "sum_of_a_slice", _ALL, "slice > reduce_sum, slice > rescale > reduce_sum", remedy=Copy(patterns.sums_of_slices)
    ),
    Defect(
        "product_of_a_slice",
        _U55_U65,
        "slice > matmul",
        remedy=Copy(partial(patterns.readers_of_slices, ops=("matmul",))),  # the second operand is read correctly
    ),
    Defect(
        "channel_scales_before_slices",
        _ALL,
        "rescale > slice",
        since=(5, 2),
        remedy=Copy(patterns.sliced_channel_scales, by_table=True),
    ),
    Defect("channel_scales_behind_a_reshape", _ALL, "conv2d|depthwise_conv2d > reshape > rescale"),
    Defect("channel_scales_behind_a_concat", _ALL, "concat|tile|pad > rescale", since=(5, 2)),
    Defect("wide_rescale_of_a_concat", _U55_U65, "concat|tile > rescale:INT32", since=(5, 2)),
    Defect(
        "concat_of_a_wide_rescale",
        _U55_U65,
        "rescale > concat|pad",
        since=(5, 2),
        remedy=Copy(patterns.misplaced_rescales),
    ),
    Defect("reshaped_slice", _ALL, "slice > transpose", until=(5, 2)),
    Defect("part_of_the_weights", _U85, "conv2d|depthwise_conv2d > rescale > table > concat"),
    Defect(
        "wide_strides_of_a_slice",
        _U85,
        "slice > conv2d|depthwise_conv2d",
        remedy=Copy(patterns.strided_convolutions_of_slices),
    ),
    Defect(
        "too_early_behind_a_transpose",
        _U55_U65,
        "transpose > conv2d|depthwise_conv2d|max_pool2d|rescale, "
        "transpose > reshape > conv2d|depthwise_conv2d|max_pool2d|rescale",
        remedy=Guard(
            "an operator behind a TRANSPOSE of height and width that reads the shape from before it "
            "(Vela lets it begin too early)",
            patterns.early_readers,
        ),
    ),
    # where a binary shows it, activations are chosen before them (`correct` in `eqsat/choice/choice.py`)
    Defect("too_early_behind_an_activation", _ALL, "transpose|reverse > clamp|table"),
    Defect("mask_that_is_an_output", _U85, f"{_COMPARISONS} > select"),
    Defect("negated_and_widened", _U85, "negate|bitwise_not:INT16 > rescale:INT32"),
    Defect("maximum_to_unsigned", _U85, f"{_MAXIMA} > rescale", since=(5, 2)),
    Defect(
        "minimum_in_another_shape", _U55_U65, "reduce_min > reshape|transpose, reduce_min > reshape > reshape|transpose"
    ),
    Defect("widened_minimum", _U55_U65, "reduce_min > rescale", since=(5, 2)),
    Defect("negated_to_unsigned", _ALL, "negate > rescale", since=(5, 2)),
    Defect("zero_point_behind_an_empty_pad", _ALL, "pad > conv2d|depthwise_conv2d"),
    Defect("activation_of_a_long_transpose", _U55_U65, "transpose > clamp|table"),
    Defect("activation_of_a_flat_transpose", _U85, "transpose > clamp|table", until=(5, 2)),
    Defect("clamps_around_a_transpose", _U85, "clamp > transpose > clamp"),
    Defect("slice_of_fewer_axes", _U85, "slice > concat, slice > rescale"),
    Defect("padded_depthwise_with_a_multiplier", _ALL, "depthwise_conv2d > rescale > pad"),
    Defect("narrowing_cast", _U55_U65, "cast"),
)


def remedies(kind: type[_R], family: Family, vela: str | None = None) -> list[_R]:
    """Returns the remedies of a kind for the defects that a version (None: the installed one) has on a family."""
    vela = version() if vela is None else vela
    return [d.remedy for d in DEFECTS if isinstance(d.remedy, kind) and d.is_in(family, vela)]


# Graphs that must never reach Vela: with a defect, or with sums of 48 bits where it takes none.


def price_guards(cycles: float, operator: Operator, guards: Iterable[Guard]) -> float:
    """Returns the price of an operator: `cycles`, more if it may have a defect, inf if it is forbidden."""
    factors = [g.factor for g in guards if g.operator is not None and g.operator(operator)]
    return math.inf if is_misplaced(operator) or math.inf in factors else cycles * math.prod(factors)


def is_misplaced(operator: Operator) -> bool:
    """Whether an operator is wrong in every graph: only a RESCALE may read INT48 sums."""
    return (
        operator.op != "rescale"
        and OPS[operator.op].kind not in ("leaf", "mac")
        and any(DType.of(t.dtype).only_rescaled for t in (*operator.operands, operator.result))
    )


def violations(graph: TensorGraph, family: Family, vela: str | None = None) -> list[str]:
    """Returns in words each violation of a guard in a graph, for a family and a version (None: the installed one)."""
    defects = [g.words for g in remedies(Guard, family, vela) for _ in g.places(graph)]
    return defects + ["an INT48 result read by anything but its one RESCALE" for _ in _find_misread(graph)]


def find_broken(graph: TensorGraph, source: TensorGraph, family: Family) -> list[str]:
    """Returns the guards, in words, that a graph violates more often than the one that it replaces."""
    return list((Counter(violations(graph, family)) - Counter(violations(source, family))).elements())


def _find_misread(graph: TensorGraph) -> Iterator[int]:
    for n, reading in graph.readers().items():
        node = graph.nodes[n]
        read_by = [graph.nodes[r].op for r in reading]
        if DType.of(node.dtype).only_rescaled and node.op != "const" and read_by not in ([], ["rescale"]):
            yield n
