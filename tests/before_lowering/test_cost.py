"""Prices above TOSA's level rank data movement as the backend will have to pay for it."""

from __future__ import annotations

import pytest

from cost_models.protocol import Unit
from eqsat.before_lowering.cost import MovementCost
from eqsat.target import Target
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type

Q8, Q16 = "INT8:0.1", "INT16:0.1"


def moved(dtype: str, shape: tuple[int, ...], perm: tuple[int, ...]) -> Unit:
    m = Move.transpose(shape, perm)
    return Unit((), (Type(m.in_shape, dtype),), Type(m.out_shape, dtype), move=m)


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_movements_rank_by_what_they_move(accelerator: str) -> None:
    model = MovementCost(Target.of(accelerator))
    shape, perm = (1, 32, 16, 16), (0, 2, 3, 1)
    units = [
        moved(Q8, shape, perm),
        moved(Q8, (1, 64, 32, 32), perm),
        moved(Q16, (1, 64, 32, 32), perm),
        moved("FP32", shape, perm),
        moved(Q8, (1, 32, 1, 1), perm),
    ]
    small, large, wide, outside, view = (p.cycles for p in model.price(units))
    assert view < small < large <= wide and small < outside
