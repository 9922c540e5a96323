"""A route is the movement that it writes, whatever ends it may use, and on a quantized tensor no costlier than the
plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.fx.route import Route, plain, staged, to_last
from eqsat.target import FAMILIES, Family
from eqsat.tensor.movement import Move


def follow(route: Route, x: np.ndarray) -> np.ndarray:
    for op, values in route:
        x = x.transpose(values) if op == "permute" else x.reshape(values)
    return x


@st.composite
def movements(draw) -> Move:
    """A permute of up to 6 axes between views that merge and split them."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=6)))
    m = Move.transpose(shape, draw(st.permutations(range(len(shape)))))
    size = int(np.prod(shape))
    before, after = (draw(st.sampled_from([(size,), (1, size), (1, size, 1, 1), None])) for _ in range(2))
    whole = Move.reshape(before, shape).then(m) if before else m
    return whole.then(Move.reshape(m.out_shape, after)) if after else whole


@settings(max_examples=150, deadline=None)
@given(movements(), st.sampled_from(FAMILIES), st.booleans(), st.booleans())
def test_a_route_moves_as_its_movement_does(m: Move, family: Family, head: bool, tail: bool) -> None:
    x = np.arange(int(np.prod(m.in_shape))).reshape(m.in_shape)
    for route in (plain(m), staged(m, 1, family, head, tail)[0]):
        assert np.array_equal(follow(route, x), m.apply(x))
    assert sum(op == "permute" for op, _ in plain(m)) <= 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_a_pixel_shuffle_behind_a_convolution_is_written_in_native_steps(family: Family) -> None:
    shape = (1, 12, 16, 16)
    m = (
        Move.reshape(shape, (3, 2, 2, 16, 16))
        .then(Move.transpose((3, 2, 2, 16, 16), (0, 3, 1, 4, 2)))
        .then(Move.reshape((3, 16, 2, 16, 2), (1, 3, 32, 32)))
    )
    route, cancels = staged(m, 1, family, from_layout=True, into_layout=False)
    natives = {(0, *(p + 1 for p in perm)) for perm in family.transposes.native}
    permutes = [tuple(v) for op, v in route if op == "permute"]
    assert not cancels and set(permutes) - {(0, 2, 3, 1)} <= natives and len(permutes) >= 2


def test_layouts_that_the_backend_cancels_are_used_at_both_ends() -> None:
    """What is a view channels last is no work, however it looks channels first."""
    last = to_last((1, 8, 6, 6))
    m = last.then(Move.reshape(last.out_shape, (1, 6, 3, 16))).then(to_last((1, 16, 6, 3)).inverse())
    assert not m.is_view
    for family in FAMILIES:
        route, cancels = staged(m, 1, family, True, True)
        assert cancels and route == [("permute", [0, 2, 3, 1]), ("view", [1, 6, 3, 16]), ("permute", [0, 3, 1, 2])]
        assert not staged(m, 1, family, True, False)[1] and staged(m, 1, family, False, False)[0][0] != route[0]
