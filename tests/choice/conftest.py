"""The default cost model, with prices that all tests of a process share."""

from __future__ import annotations

import pytest

from cost_models.cache import PriceCache
from cost_models.vela_groups import VelaGroups
from eqsat.ground.worker import Pool
from eqsat.target import Target


@pytest.fixture(scope="module", params=["ethos-u55-128", "ethos-u85-256"])
def model(request: pytest.FixtureRequest, pool: Pool, prices: PriceCache) -> VelaGroups:
    return VelaGroups(Target.of(request.param), pool, prices)
