"""The algebra of data movement, against numpy on random chains."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eqsat.tensor.movement import Move


@st.composite
def steps(draw, shape=None, n=3):
    """A random chain of transposes and reshapes as (shape, [("t", perm) | ("r", shape)])."""
    shape = shape or tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    chain, current = [], shape
    for _ in range(draw(st.integers(1, n))):
        if draw(st.booleans()):
            perm = tuple(draw(st.permutations(range(len(current)))))
            chain.append(("t", perm))
            current = tuple(current[p] for p in perm)
        else:
            rest, new = int(np.prod(current)), []
            while rest > 1 and len(new) < 4:
                d = draw(st.sampled_from([k for k in range(1, rest + 1) if rest % k == 0]))
                new.append(d)
                rest //= d
            current = tuple(new + [rest])
            chain.append(("r", current))
    return shape, chain


def build(shape, chain):
    x = np.arange(int(np.prod(shape))).reshape(shape)
    moves = []
    for kind, arg in chain:
        moves.append(Move.transpose(x.shape, arg) if kind == "t" else Move.reshape(x.shape, arg))
        x = x.transpose(arg) if kind == "t" else x.reshape(arg)
    return x, moves


def composed(moves):
    """The whole chain as one Move; the example is left out where there is none."""
    total = moves[0]
    for m in moves[1:]:
        total = total.then(m)
        assume(total is not None)
    return total


@settings(max_examples=150, deadline=None)
@given(steps())
def test_single_steps_inverse_and_composition(case):
    shape, chain = case
    want, moves = build(shape, chain)
    for m in moves:
        assert m.then(m.inverse()).is_identity
        assert m.inverse().inverse() == m
    total = composed(moves)
    x = np.arange(int(np.prod(shape))).reshape(shape)
    assert np.array_equal(total.apply(x), want)
    assert np.array_equal(total.inverse().apply(want), x)
    squeezed, perm = total.squeeze()
    assert np.array_equal(x.reshape(squeezed).transpose(perm).reshape(total.out_shape), want)
    if (direct := total.direct()) is not None:
        assert np.array_equal(x.transpose(direct), want)
    atoms = total.atoms()
    if atoms is not None:
        assert np.prod([a.size for a in atoms], dtype=int) == x.size


@settings(max_examples=150, deadline=None)
@given(steps(), st.data())
def test_restrict_to_a_broadcast_operand(case, data):
    shape, chain = case
    total = composed(build(shape, chain)[1])
    operand = tuple(1 if data.draw(st.booleans()) else d for d in shape)
    part = total.restrict(operand)
    assume(part is not None)
    y = np.arange(int(np.prod(operand))).reshape(operand)
    want = total.apply(np.broadcast_to(y, shape))
    assert np.array_equal(np.broadcast_to(part.apply(y), want.shape), want)


@settings(max_examples=100, deadline=None)
@given(steps(), st.data())
def test_resize_keeps_the_reordering(case, data):
    shape, chain = case
    total = composed(build(shape, chain)[1])
    dim = data.draw(st.integers(0, len(shape) - 1))
    atom = total.whole(dim)
    assume(atom is not None and shape[dim] >= 2)
    smaller = total.resize({dim: shape[dim] - 1})
    # cutting the first element off commutes with the movement
    x = np.arange(int(np.prod(shape))).reshape(shape)
    inner = total.out_shape[atom.out_dim] // shape[dim]
    cut = np.take(x, range(1, shape[dim]), dim)
    want = np.take(total.apply(x), range(inner, total.out_shape[atom.out_dim]), atom.out_dim)
    assert np.array_equal(smaller.apply(cut), want)


def test_views_without_common_refinement_do_not_compose():
    swap = Move.transpose((2, 3), (1, 0)).then(Move.reshape((3, 2), (2, 3)))
    assert swap.then(Move.transpose((2, 3), (1, 0))) is None


def test_pixel_shuffle_is_one_movement():
    m = Move.transpose((1, 4, 4, 8), (0, 3, 1, 2)).then(Move.reshape((1, 8, 4, 4), (1, 2, 2, 2, 4, 4)))
    m = m.then(Move.transpose(m.out_shape, (0, 1, 4, 2, 5, 3))).then(Move.reshape((1, 2, 4, 2, 4, 2), (1, 2, 8, 8)))
    assert len(m.axes) == 5
    x = np.arange(128).reshape(1, 4, 4, 8)
    want = x.transpose(0, 3, 1, 2).reshape(1, 2, 2, 2, 4, 4).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 8, 8)
    assert np.array_equal(m.apply(x), want)
