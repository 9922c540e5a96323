"""Convolutions side by side as fewer: exact for every way to group them, and linear in their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat.egraph.encoding import Frozen, saturate
from eqsat.options.options import Options
from eqsat.rules import grouped
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from tests.rules.cases import of_table
from tests.term import Term, graph

Kernel = tuple[int, int]


def layer(
    x: Term, random: np.random.Generator, out: int, kernel: Kernel, *, scales: bool = True, **attributes: Any
) -> Any:
    """A random convolution and its RESCALE, of one scale per channel or of one for all."""
    out_zp = attributes.pop("out_zp", -128)
    weights = random.integers(-128, 128, (out, *kernel, x.shape[-1]))
    y = x.conv(weights, random.integers(-999, 999, out), **attributes)
    multiplier, shift = random.integers(1 << 30, (1 << 31) - 1, out), random.integers(36, 40, out)
    by = (multiplier.tolist(), shift.tolist()) if scales else (int(multiplier[0]), int(shift[0]))
    return y.rescale("INT8", *by, out_zp=out_zp)


def group(
    x: Term, start: int = 0, size: int = 0, *, out: int = 3, kernel: Kernel = (3, 3), rows: int = 5, **more: Any
) -> Any:
    """A convolution of some channels of x, or of all, with its RESCALE."""
    size = size or x.shape[3]
    if (start, size, rows) != (0, x.shape[3], 5):
        x = x("slice", start=(0, 0, 0, start), size=(2, rows, 6, size))
    pad = (0, kernel[0] - 1, kernel[1] - 1, 0)
    return layer(x, np.random.default_rng(x.n), out, kernel, **{"pad": pad, "in_zp": 7, "out_zp": -5, **more})


def joined(*groups: Term, axis: int = 3) -> Any:
    return groups[0].concat(*groups[1:], axis=axis)


def even(x: Term, size: int = 2, scales: str = "", axis: int = 3, **more: Any) -> Any:
    """Groups of `size` channels each. scales: of each group, whether there is one per channel ("c") or one for all."""
    starts = range(0, x.shape[3], size)
    kinds = scales or "c" * len(starts)
    return joined(*(group(x, k, size, scales=s == "c", **more) for k, s in zip(starts, kinds, strict=True)), axis=axis)


def operands(frozen: Frozen) -> set[int]:
    """The numbers of operands of the concats that equal the output."""
    output = frozen.handle[frozen.source.outputs[0]]
    return {len(e.children) for e in frozen.classes[output] if e.op == "concat"}


TABLE = """
grouped    INT8[2,5,6,4]   even(x)  operands(frozen) == {1, 2}
grouped    INT8[2,5,6,6]   even(x)  operands(frozen) == {1, 3}
grouped    INT8[2,5,6,12]  even(x)  operands(frozen) == {1, 2, 3, 6}
grouped    INT8[2,5,6,16]  even(x)  operands(frozen) == {1, 2, 4, 8}
grouped    INT8[2,5,6,4]   even(x, scales=pair)  1 in operands(frozen)
grouped    INT8[2,5,6,8]   even(x, scales='ccaa')  1 in operands(frozen)
grouped    INT8[2,5,6,2]   joined(group(x, out=2), group(x, out=3), group(x, out=1))  1 in operands(frozen)
# in another order, with overlaps and gaps
grouped    INT8[2,5,6,8]  joined(group(x, 4, 2), group(x, 1, 4, out=1), group(x), group(x, 1, 1))  1 in operands(frozen)
grouped    INT8[2,5,6,8]   even(x, **window)  1 in operands(frozen)
# what differs in more than constants
- grouped  INT8[2,5,6,4]   joined(group(x, 0, 2), group(x, 2, 2, **change))
- grouped  INT8[2,5,6,4] INT8[2,5,6,4]  joined(group(x, 0, 2), group(y, 2, 2))
- grouped  INT8[2,5,6,4]   even(x, axis=1)                       # a concat of rows
- grouped  INT8[2,5,6,4]   even(x, rows=4)                       # slices of rows
"""
test_fires_and_is_exact, test_spares_near_misses = of_table(
    globals(),
    TABLE,
    beside=" ".join(r.name for r in grouped.RULES),
    change=[{"kernel": (1, 3)}, {"in_zp": 6}, {"w_zp": 1}, {"pad": (1, 1, 1, 1)}, {"out_zp": 4}],
    pair=["ca", "ac", "aa"],
    window=[{"stride": (2, 1), "pad": (1, 1, 0, 1)}, {"dilation": (2, 2), "pad": (2, 2, 2, 2)}, {"w_zp": 3}],
)


def lowered(groups: int, size: int, edge: int, explicit: bool = True) -> TensorGraph:
    """A grouped 3x3 convolution as ExecuTorch spells it, between two 1x1 convolutions. explicit: slices and concat are
    in NCHW, between transposes, which ExecuTorch's own passes take out later."""
    random = np.random.default_rng(0)

    def conv(x: Any, out: int, kernel: int) -> Any:
        return layer(x, random, out, (kernel, kernel), pad=(kernel // 2,) * 4, in_zp=-128)

    def moved(x: Any, *perms: int) -> Any:
        return x.transpose(*perms) if explicit else x

    def made(x: Any) -> Any:
        y = moved(conv(x, groups * size, 1), 0, 3, 1, 2)
        axis = 1 if explicit else 3
        parts = (moved(y.part(n * size, size, axis), 0, 2, 3, 1) for n in range(groups))
        parts = (moved(conv(part, size, 3), 0, 3, 1, 2) for part in parts)
        return conv(moved(joined(*parts, axis=axis), 0, 2, 3, 1), 16, 1)

    return graph(f"x:INT8[1,{edge},{edge},16]", made)


@pytest.mark.slow
def test_the_e_graph_of_32_groups_is_linear_in_their_number() -> None:
    """To merge any two neighbours would take 2^31 concats. After one pass there are 663 e-nodes."""
    counts = []
    for groups in (16, 32):
        found = saturate(lowered(groups, 4, 14), Options().identities(Target.of("ethos-u85-256")))
        assert found.saturation.stop == "saturated" and found.saturation.matches["grouped"] > 0
        counts.append(found.n_nodes)
    assert counts[1] < 3200 and counts[1] < 2.2 * counts[0]


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
