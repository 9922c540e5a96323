"""Counts of the values of an array."""

import numpy as np

from eqsat.tensor.types import occurrences


def test_every_value_of_int8_is_counted_in_its_place() -> None:
    data = np.random.default_rng(0).integers(-128, 128, (4, 9, 5)).astype(np.int8)
    for view in (data, data.transpose(2, 0, 1), data[::2, 1:4]):
        assert occurrences(view).tolist() == [int((view == v).sum()) for v in range(-128, 128)]
