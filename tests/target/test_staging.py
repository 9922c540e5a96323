"""Every way to write a data movement does that movement."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eqsat.target import FAMILIES, Family
from eqsat.target.family import U55, U85
from eqsat.target.staging import chains, reordering, step_cycles, ways, write_steps
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move


@st.composite
def moves(draw) -> Move:
    """A random movement that is no view: up to three transposes with regroupings of the axes between."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=5)))
    m = Move.reshape(shape, shape)
    for _ in range(draw(st.integers(1, 3))):
        perm = draw(st.permutations(range(len(m.out_shape))))
        joined = m.then(Move.transpose(m.out_shape, perm))
        m = m if joined is None else joined
        if len(m.out_shape) > 2 and draw(st.booleans()):
            d = draw(st.integers(0, len(m.out_shape) - 2))
            s = m.out_shape
            m = m.then(Move.reshape(s, (*s[:d], s[d] * s[d + 1], *s[d + 2 :])))
    return m


def steps_of(m: Move, width: int, family: Family) -> list:
    sizes, perm = reordering(m)
    return [write_steps(m, chain) for chain in ways(sizes, perm, width, family)]


@settings(max_examples=150, deadline=None)
@given(moves(), st.sampled_from(FAMILIES), st.sampled_from([1, 2]))
def test_all_ways_do_the_movement(m: Move, family: Family, width: int) -> None:
    assume(not m.is_view)
    x = np.arange(int(np.prod(m.in_shape)), dtype=np.int32).reshape(m.in_shape)
    found = steps_of(m, width, family)
    assert found and len(set(found)) == len(found)
    for steps in found:
        g = TensorGraph()
        y = g.add_input("x", m.in_shape, "INT32")
        for op, attrs in steps:
            y = g.add_with(op, [y], attrs)
        g.outputs = [y]
        assert np.array_equal(g.evaluate([x])[0], m.apply(x))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_chains_are_native_and_cheapest_first(family: Family) -> None:
    sizes = (2, 3, 5, 7)
    for perm in permutations(range(4)):
        if perm == (0, 1, 2, 3):
            continue
        found = chains(sizes, perm, 1, family, 4)
        prices = [sum(step_cycles(*shape, p, 1, family) for shape, p in c) for c in found]
        assert found and prices == sorted(prices) and len(found) <= 4
        assert all(p in family.transposes.native for c in found for _, p in c)


@pytest.mark.parametrize("sizes", [(3, 40, 8), (2, 3, 16, 5), (4, 2, 130, 3)])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_no_chain_is_cheaper_than_those_found(family: Family, sizes: tuple[int, ...]) -> None:
    n, kept = len(sizes), 5
    goal = tuple(range(n))
    cheapest = {order: [0.0] if order == goal else [] for order in permutations(range(n))}
    for _ in range(4):
        cheapest = {order: _longer(order, cheapest, sizes, family)[:kept] for order in cheapest}
    for perm in list(cheapest)[1:]:
        placed = tuple(sizes[perm.index(axis)] for axis in range(n))
        found = [sum(step_cycles(*s, p, 1, family) for s, p in c) for c in chains(placed, perm, 1, family, kept)]
        start = tuple(perm.index(axis) for axis in range(n))
        assert found == pytest.approx(cheapest[start])


def _longer(
    order: tuple[int, ...], cheapest: dict[tuple[int, ...], list[float]], sizes: tuple[int, ...], family: Family
) -> list[float]:
    """Returns the cycles of every chain from an order to the sorted one, with one step before those in `cheapest`."""
    if order == tuple(range(len(order))):
        return [0.0]
    found = []
    for i, j in combinations(range(len(order) + 1), 2):
        groups = order[:i], order[i:j], order[j:]
        h, w, c = (math.prod(sizes[axis] for axis in group) for group in groups)
        for native in family.transposes.native:
            following = tuple(axis for k in native for axis in groups[k])
            if following != order:
                found += [step_cycles(h, w, c, native, 1, family) + left for left in cheapest[following]]
    return sorted(found)


def test_a_native_permutation_is_a_chain_of_one() -> None:
    for family in FAMILIES:
        for perm in family.transposes.native if family.transposes.pooled else [(1, 0, 2)]:  # others are many commands
            assert (((4, 6, 16), perm),) in chains((4, 6, 16), perm, 1, family, 20)


def test_many_axes_have_a_way() -> None:
    m = Move.transpose((2,) * 8, (7, 6, 5, 4, 3, 2, 1, 0))
    x = np.arange(256).reshape(m.in_shape)
    for steps in steps_of(m, 1, U85):
        ((_, attrs),) = steps
        assert np.array_equal(x.transpose(dict(attrs)["perms"]), m.apply(x))


def test_movements_that_view_their_ends_differently_share_a_reordering() -> None:
    plain = Move.transpose((36, 2, 4), (0, 2, 1))
    shuffle = Move.reshape((36, 8), (36, 2, 4)).then(plain).then(Move.reshape((36, 4, 2), (36, 8)))
    assert reordering(shuffle) == reordering(plain) == ((36, 2, 4), (0, 2, 1))
    for m in (plain, shuffle):
        for steps in steps_of(m, 1, U55):
            assert (steps[-1] == ("reshape", (("shape", (36, 8)),))) == (m is shuffle)
