"""How many commands Vela makes of a broadcast, and the shapes in which it makes fewer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.target.staging import commands, merge_axes
from eqsat.tensor.types import Shape
from tests.graphs import compile_graph
from tests.term import inputs, outputs

BROADCASTS = [
    ((4, 3, 5, 8), (4, 3, 5, 8)),
    ((4, 3, 5, 8), (1, 1, 1, 1)),
    ((4, 3, 5, 8), (1, 1, 1, 8)),
    ((4, 3, 5, 8), (4, 3, 5, 1)),
    ((1, 4, 5, 8), (1, 4, 1, 8)),
    ((6, 1, 1, 4, 3), (1, 1, 1, 4, 1)),
    ((2, 3, 2, 4, 8), (1, 3, 1, 1, 8)),
    ((4, 5, 8), (1, 5, 1)),
]


@st.composite
def operands(draw) -> list[Shape]:
    result = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    kept = [draw(st.lists(st.booleans(), min_size=len(result), max_size=len(result))) for _ in range(2)]
    return [tuple(n if whole else 1 for n, whole in zip(result, mask)) for mask in kept]


@given(operands())
def test_merged_operands_give_the_same_values(shapes: list[Shape]) -> None:
    found = merge_axes(shapes)
    if found is not None:
        assert commands(found) < commands(shapes)
        x, y = (np.arange(np.prod(s)).reshape(s) + 1 for s in shapes)
        assert np.array_equal((x * 1000 + y).ravel(), (x.reshape(found[0]) * 1000 + y.reshape(found[1])).ravel())


@pytest.mark.parametrize(
    "shapes, expected",
    [
        (((6, 1, 1, 4, 3), (1, 1, 1, 4, 1)), [(6, 4, 3), (1, 4, 1)]),
        (((4, 3, 5, 8), (1, 1, 1, 8)), [(60, 8), (1, 8)]),
        (((2, 3, 2, 4, 8), (1, 3, 1, 1, 8)), [(2, 3, 8, 8), (1, 3, 1, 8)]),
        (((2, 3, 4, 5), (1, 3, 1, 5)), None),  # no neighbours are alike
        (((1, 4, 5, 8), (1, 4, 1, 8)), None),  # one command already
    ],
)
def test_neighbours_that_are_alike_become_one(shapes: tuple[Shape, ...], expected: list[Shape] | None) -> None:
    assert merge_axes(shapes) == expected


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_vela_makes_so_many_commands(shapes: tuple[Shape, ...], target: str, pool: Pool) -> None:
    """A CLAMP behind them is one more where they are several."""
    for written in (shapes, merge_axes(shapes)):
        if written is not None:
            x, y = inputs("x:INT8{} y:INT8{}".format(*map(list, written)))
            estimate = compile_graph(outputs(x.plus(y).table(range(-128, 128))), Target.of(target), pool)
            rows = [r.operator for r in estimate.rows]
            assert rows.count("Add") == commands(written)
            behind = sum(r.cycles for r in estimate.rows if r.operator == "LUT")
            assert (behind > 0) == (commands(written) > 1)
