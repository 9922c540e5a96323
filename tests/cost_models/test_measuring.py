"""Units that workers measure, several in a call."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cost_models.measuring import _record, _unit, measured
from cost_models.protocol import Unit
from eqsat.ground._child import pack, unpack
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.types import Type, attrs_of
from tests.cost_models.test_vela_groups import units
from tests.graphs import residual

pytestmark = pytest.mark.pins

U55 = Target.of("ethos-u55-128")


def clamp(low: int) -> Unit:
    kind = Type((1, 8, 8, 16), "INT8")
    return Unit((("clamp", makers.clamp("INT8", low, 50)),), (kind,), kind)


def transpose(*perm: int) -> Unit:
    shape = (1, 8, 4, 16)
    result = Type(tuple(shape[p] for p in perm), "INT8")
    return Unit((("transpose", attrs_of({"perms": perm})),), (Type(shape, "INT8"),), result, from_input=True)


OF_A_NETWORK = units(residual())
UNITS = [*OF_A_NETWORK, transpose(0, 2, 1, 3), transpose(0, 1, 3, 2), *map(clamp, range(-40, -20))]


def test_a_unit_reaches_a_worker_as_it_is() -> None:
    assert {u.op for u in UNITS} >= {"conv2d", "rescale", "add", "clamp", "transpose"}
    for unit in UNITS:
        assert _unit(unpack(io.BytesIO(pack(_record(unit))).read)) == unit


def test_numbers_of_numpy_reach_a_worker_as_numbers() -> None:
    unit = transpose(*np.array([0, 2, 1, 3]))
    assert _unit(unpack(io.BytesIO(pack(_record(unit))).read)) == transpose(0, 2, 1, 3)


def test_units_of_a_batch_have_the_prices_that_each_has_alone(pool: Pool) -> None:
    together = measured(UNITS, U55, pool)
    assert together == [c for unit in UNITS for c in measured([unit], U55, pool)]
    assert all(c is not None and 0 < c < math.inf for c in together[len(OF_A_NETWORK) :])


class Dying:
    """A pool whose workers die of one unit, as Vela can crash."""

    def __init__(self, pool: Pool, deadly: Unit) -> None:
        self.call_of_pool, self.map, self.deadly = pool.call, pool.map, _record(deadly)

    def call(self, function: Callable[..., Any], records: Any, *args: Any, limits: Limits) -> Any:
        if self.deadly in records:
            raise WorkerError("the worker died", killed=True)
        return self.call_of_pool(function, records, *args, limits=limits)


def test_a_unit_that_kills_a_worker_costs_only_its_own_price(pool: Pool) -> None:
    deadly = len(OF_A_NETWORK)
    found = measured(UNITS, U55, Dying(pool, UNITS[deadly]))  # type: ignore[arg-type]
    assert found.pop(deadly) == math.inf
    assert found == measured(UNITS[:deadly] + UNITS[deadly + 1 :], U55, pool)
