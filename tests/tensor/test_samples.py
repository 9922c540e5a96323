"""Samples have every kind of input that an error may need to be seen."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.tensor.dtypes import DTYPES, DType
from eqsat.tensor.samples import Domain, domains, samples
from eqsat.tensor.types import GraphError, Type
from tests.term import inputs, outputs

LOW, HIGH, EDGES, UNIFORM, PLANES, IMPULSES, GRADIENT = range(7)


@pytest.mark.parametrize("dtype", ["BOOL", "INT8", "INT16", "INT32"])
def test_samples_begin_with_the_extremes(dtype: str) -> None:
    low, high = DType.of(dtype).limits if dtype != "INT32" else (-(2**20), 2**20)
    drawn = [xs[0] for xs in samples([Domain(Type((4, 50), dtype))], 20)]
    assert all(
        x.dtype == DType.of(dtype).storage and x.shape == (4, 50) and low <= x.min() and x.max() <= high for x in drawn
    )
    assert (drawn[LOW] == low).all() and (drawn[HIGH] == high).all()
    again = [xs[0] for xs in samples([Domain(Type((4, 50), dtype))], 20)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 5)])
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values() if not d.carried])
def test_every_dtype_and_rank_can_be_drawn(shape: tuple[int, ...], dtype: str) -> None:
    assert all(
        x.shape == shape and x.dtype == DType.of(dtype).storage for (x,) in samples([Domain(Type(shape, dtype))], 30)
    )


def test_what_numpy_cannot_hold_is_an_error() -> None:
    with pytest.raises(GraphError, match="BF16"):
        samples([Domain(Type((2,), "BF16"))], 1)


def test_edges_are_independent_of_each_other_in_each_input() -> None:
    """One input low where another is high: a dropped SELECT shows only there."""
    given = [Domain(Type((8, 8, 8), "INT8")), Domain(Type((8, 8, 8), "INT8"))]
    x, y = samples(given, 3)[EDGES]
    assert set(np.unique(x)) == set(np.unique(y)) == {-128, -127, 126, 127}
    assert len({(a, b) for a, b in zip(x.flat, y.flat, strict=True)}) == 4 * 4


def test_uniform_has_every_code_where_there_is_room() -> None:
    (x,) = samples([Domain(Type((16, 17), "INT8"))], 4)[UNIFORM]
    assert len(np.unique(x)) == 256


def test_planes_are_constant_but_along_one_axis() -> None:
    seen = set()
    for seed in range(9):
        (x,) = samples([Domain(Type((1, 6, 10, 7), "INT8"))], 5, seed)[PLANES]
        varies = [a for a in range(4) if (np.diff(x, axis=a) != 0).any()]
        assert len(varies) <= 1
        seen.update(varies)
    assert {1, 3} <= seen, "channels come first or last"


def test_impulses_stand_out_and_gradients_rise() -> None:
    given = [Domain(Type((10, 10), "INT8"))]
    drawn = samples(given, 9)
    values, counts = np.unique(drawn[IMPULSES][0], return_counts=True)
    assert 1 < len(values) <= 4 and counts.max() >= 97
    assert (drawn[GRADIENT][0].min(), drawn[GRADIENT][0].max()) == (-128, 127)


def test_positions_stay_within_what_they_point_into() -> None:
    x, i, j = inputs("x:INT8[2,8,3] i:INT32[4,2] j:INT32[2,5]")
    scattered = x.opaque("SCATTER", [Type((2, 8, 3), "INT8")], j, x("gather", j))
    g = outputs(x("gather", i.transpose(1, 0)), scattered)
    seen: tuple[set[int], set[int]] = set(), set()
    for _, i, j in samples(domains(g), 20):
        seen[0].update(i.flat)
        seen[1].update(j.flat)
        assert all(len(set(row)) == 5 for row in j), "SCATTER takes no position twice"
    assert seen[0] == seen[1] == set(range(8))
