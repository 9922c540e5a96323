"""Convolutions side by side as fewer: exact for every way to group them, linear in their number, and cheaper by Vela's
total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from eqsat.egraph.encoding import saturate
from eqsat.options.options import Options
from eqsat.rules import grouped
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import loads
from tests.rules.checks import check, fires, only, optimized

EVERY = [r.name for r in grouped.RULES]


@dataclass(frozen=True)
class Group:
    """A convolution of some channels of the input, or of all, with its RESCALE."""

    start: int = 0
    size: int | None = None
    out: int = 3
    kernel: tuple[int, int] = (3, 3)
    per_channel: bool = True
    attributes: dict = field(default_factory=dict)
    scales: dict = field(default_factory=dict)
    rows: int = 5
    tensor: int = 0


def side_by_side(groups: Sequence[Group], channels: int, axis: int = 3) -> TensorGraph:
    """Groups of one input (or of several), concatenated."""
    rng = np.random.default_rng(0)
    g = TensorGraph()
    xs = [g.add_input(f"x{n}", (2, 5, 6, channels), "INT8") for n in range(1 + max(c.tensor for c in groups))]
    results = []
    for c in groups:
        x, size = xs[c.tensor], channels if c.size is None else c.size
        if (c.start, size, c.rows) != (0, channels, 5):
            x = g.add("slice", (x,), start=(0, 0, 0, c.start), size=(2, c.rows, 6, size))
        weights = g.add_const(rng.integers(-128, 128, (c.out, *c.kernel, size)), "INT8")
        bias = g.add_const(rng.integers(-999, 999, c.out), "INT32")
        pad = (0, c.kernel[0] - 1, c.kernel[1] - 1, 0)
        attributes = makers.conv("INT8", **{"pad": pad, "in_zp": 7, **c.attributes})
        y = g.add_with("conv2d", (x, weights, bias), attributes)
        multiplier = [int(m) for m in rng.integers(1 << 30, (1 << 31) - 1, c.out)]
        shift = [int(s) for s in rng.integers(36, 40, c.out)]
        scales = (multiplier, shift) if c.per_channel else (multiplier[0], shift[0])
        results.append(g.add_with("rescale", [y], makers.rescale("INT8", *scales, **{"out_zp": -5, **c.scales})))
    g.outputs = [g.add("concat", results, axis=axis)]
    return g


def convolutions(g: TensorGraph) -> set[int]:
    """Saturates, checks every e-node, and gives the numbers of operands of the concats that equal the output."""
    frozen = check(g, only(*EVERY))
    output = frozen.handle[g.outputs[0]]
    return {len(e.children) for e in frozen.classes[output] if e.op == "concat"}


def even(count: int, size: int = 2, **values) -> list[Group]:
    """So many groups of `size` channels each."""
    return [Group(n * size, size, **values) for n in range(count)]


@pytest.mark.parametrize(("count", "found"), [(2, {1, 2}), (3, {1, 3}), (6, {1, 2, 3, 6}), (8, {1, 2, 4, 8})])
def test_groups_as_one_convolution_and_as_a_few(count: int, found: set[int]) -> None:
    assert convolutions(side_by_side(even(count), 2 * count)) == found


@pytest.mark.parametrize("per_channel", [[True, False], [False, True], [False, False], [True, True, False, False]])
def test_scales_become_scales_per_channel(per_channel: list[bool]) -> None:
    groups = [replace(c, per_channel=p) for c, p in zip(even(len(per_channel)), per_channel, strict=True)]
    assert 1 in convolutions(side_by_side(groups, 2 * len(groups)))


def test_convolutions_of_one_input_as_one() -> None:
    assert 1 in convolutions(side_by_side([Group(out=2), Group(out=3), Group(out=1)], 2))


def test_groups_in_another_order_that_overlap_or_leave_gaps() -> None:
    assert 1 in convolutions(side_by_side([Group(4, 2), Group(1, 4, out=1), Group(), Group(1, 1)], 8))


@pytest.mark.parametrize(
    "attributes", [{"stride": (2, 1), "pad": (1, 1, 0, 1)}, {"dilation": (2, 2), "pad": (2, 2, 2, 2)}, {"w_zp": 3}]
)
def test_strides_dilations_and_zero_points_stay(attributes: dict) -> None:
    assert 1 in convolutions(side_by_side(even(4, attributes=attributes), 8))


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": (1, 3)},
        {"attributes": {"in_zp": 6}},
        {"attributes": {"w_zp": 1}},
        {"attributes": {"pad": (1, 1, 1, 1)}},
        {"scales": {"out_zp": 4}},
        {"tensor": 1},
    ],
)
def test_groups_that_differ_in_more_than_constants_stay(change: dict) -> None:
    first, second = even(2)
    assert not fires(side_by_side([first, replace(second, **change)], 4), "grouped", *EVERY)


def test_concats_of_rows_and_slices_of_rows_stay() -> None:
    assert not fires(side_by_side(even(2), 4, axis=1), "grouped", *EVERY)
    assert not fires(side_by_side(even(2, rows=4), 4), "grouped", *EVERY)


def lowered(groups: int, size: int, edge: int, explicit: bool = True) -> TensorGraph:
    """A grouped 3x3 convolution as ExecuTorch spells it, between two 1x1 convolutions. explicit: slices and concat are
    in NCHW, between transposes, which ExecuTorch's own passes take out later."""
    rng = np.random.default_rng(0)
    g = TensorGraph()

    def conv(x: int, out: int, kernel: int) -> int:
        weights = g.add_const(rng.integers(-128, 128, (out, kernel, kernel, g.nodes[x].shape[-1])), "INT8")
        bias = g.add_const(rng.integers(-999, 999, out), "INT32")
        y = g.add_with("conv2d", (x, weights, bias), makers.conv("INT8", pad=(kernel // 2,) * 4, in_zp=-128))
        multiplier = [int(m) for m in rng.integers(1 << 30, (1 << 31) - 1, out)]
        return g.add_with("rescale", [y], makers.rescale("INT8", multiplier, [38] * out, out_zp=-128))

    def moved(x: int, *perms: int) -> int:
        return g.add("transpose", (x,), perms=perms) if explicit else x

    x = moved(conv(g.add_input("x", (1, edge, edge, 16), "INT8"), groups * size, 1), 0, 3, 1, 2)
    axis, shape = (1, (1, size, edge, edge)) if explicit else (3, (1, edge, edge, size))
    parts = []
    for n in range(groups):
        start = tuple(n * size if k == axis else 0 for k in range(4))
        part = moved(g.add("slice", (x,), start=start, size=shape), 0, 2, 3, 1)
        parts.append(moved(conv(part, size, 3), 0, 3, 1, 2))
    g.outputs, g.output_names = [conv(moved(g.add("concat", parts, axis=axis), 0, 2, 3, 1), 16, 1)], ["y"]
    return g


@pytest.mark.slow
@pytest.mark.parametrize(("target", "most"), [("ethos-u85-256", 3200)])
def test_the_e_graph_of_32_groups_is_linear_in_their_number(target: str, most: int) -> None:
    """To merge any two neighbours would take 2^31 concats. After one pass there are 663 e-nodes; U85 has orders of
    channels too."""
    counts = []
    for groups in (16, 32):
        found = saturate(lowered(groups, 4, 14), Options().identities(Target.of(target)))
        assert found.saturation.stop == "saturated" and found.saturation.matches["grouped"] > 0
        counts.append(found.n_nodes)
    assert counts[1] < most and counts[1] < 2.2 * counts[0]


def choices(target: str, groups: int, size: int, edge: int) -> list[int]:
    """Groups of each convolution that is offered for a target, the cheapest by its closed forms first."""
    rules = Options(preset="all").identities(Target.of(target))
    frozen = saturate(lowered(groups, size, edge), [r for r in rules if r.family in ("grouped", "moves", "across")])
    return sorted({groups // len(e.children) for nodes in frozen.classes for e in nodes if e.op == "concat"})


def test_what_is_offered_depends_on_the_target_and_the_channels() -> None:
    """Calibrated cycles on U55-128, 8 groups of 4 channels, 32x32: 90,660 as they are, 59,060 as two in one, 80,210 as
    four, 121,984 as eight."""
    assert choices("ethos-u55-128", 8, 4, 32) == [1, 2, 4]
    assert choices("ethos-u55-128", 8, 24, 14) == [1]
    assert choices("ethos-u65-256", 8, 32, 14) == [1]


@pytest.mark.slow
def test_a_grouped_convolution_gains(tmp_path: Path) -> None:
    """Vela 5.2, groups two by two: about 0.7 of the cycles."""
    g = lowered(8, 4, 28, explicit=False)
    result = optimized(g, "ethos-u85-256", tmp_path)
    assert result.chosen == "eqsat" and result.calibrated < 0.8 * result.explicit_calibrated
    chosen = loads(result.tosa)
    kernels = [chosen.nodes[n.inputs[1]].shape for n in chosen.nodes if n.op == "conv2d"]
    assert kernels.count((8, 3, 3, 8)) == 4 and (4, 3, 3, 4) not in kernels
