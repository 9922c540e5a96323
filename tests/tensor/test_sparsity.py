"""2:4 sparsity: what has it, and which order of channels gives it."""

import numpy as np
import pytest

from eqsat.tensor.sparsity import interleaved, interleaving, two_of_four


def blocks(groups: int, size: int, kernel: int = 3) -> np.ndarray:
    """Weights [groups * size, kernel, kernel, groups * size] of `groups` groups, all of them not zero."""
    weights = np.zeros((groups, size, kernel, kernel, groups, size), np.int8)
    for n in range(groups):
        weights[n, :, :, :, n] = 7
    return weights.reshape(groups * size, kernel, kernel, groups * size)


@pytest.mark.parametrize(("channels", "expected"), [((1, 0, 2, 0), True), ((0, 0, 1, 2), True), ((1, 2, 0, 3), False)])
def test_at_most_two_of_four_channels(channels: tuple[int, ...], expected: bool) -> None:
    weights = np.zeros((2, 1, 1, 8), np.int8)
    weights[1, 0, 0, 4:] = channels
    assert two_of_four(weights) is expected


def test_a_number_of_channels_that_is_no_multiple_of_four_is_not_sparse() -> None:
    assert not two_of_four(np.zeros((2, 1, 1, 6), np.int8))


@pytest.mark.parametrize(
    ("groups", "size", "expected"),
    [(2, 4, 2), (4, 4, 2), (2, 29, None), (2, 58, 2), (3, 4, 2), (4, 2, None), (1, 8, None)],
)
def test_the_groups_take_turns(groups: int, size: int, expected: int | None) -> None:
    weights = blocks(groups, size)
    found = interleaving(weights)
    assert found == expected
    if found is not None:
        turned = interleaved(weights, found)
        assert two_of_four(turned) and np.array_equal(turned[..., 1], weights[..., groups * size // found])


def test_what_is_sparse_or_full_stays_as_it_is() -> None:
    assert interleaving(interleaved(blocks(2, 4), 2)) is None
    assert interleaving(np.ones((4, 1, 1, 8), np.int8)) is None


def test_one_output_that_needs_three_of_four_is_enough_to_refuse() -> None:
    weights = blocks(2, 4)
    weights[0, 0, 0, 4] = 1
    assert interleaving(weights) is None
