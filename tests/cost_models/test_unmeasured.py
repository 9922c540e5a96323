"""Prices of what cannot be measured follow the accelerator and its memories."""

from __future__ import annotations

import pytest

from cost_models.protocol import Unit
from cost_models.unmeasured import copied
from eqsat.ground.worker import Pool
from eqsat.target import ACCELERATORS, Target
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import compile_graph
from tests.graphs import clamp, finish, rescale
from tests.unit_graph import units_of


def _graph(dtype: str) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 64, 64, 16), dtype)
    return finish(g, clamp(g, x, -100, 100) if dtype == "INT8" else rescale(g, x, "INT8"))


def _unit(dtype: str) -> Unit:
    return next(u for u in units_of(_graph(dtype)).values() if u.op in ("clamp", "rescale"))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_a_copy_is_near_vela_on_every_accelerator(accelerator: str, pool: Pool) -> None:
    target = Target.of(accelerator)
    assert 0.4 < copied(_unit("INT8"), target) / compile_graph(_graph("INT8"), target, pool).cycles < 2.2


def test_a_memory_of_half_the_bandwidth_takes_twice_as_long() -> None:
    fast, slow = (
        copied(_unit("INT32"), Target.of("ethos-u85-2048", system_config=f"Ethos_U85_SYS_DRAM_{which}"))
        for which in ("High", "Mid")
    )
    assert slow == pytest.approx(2 * fast, rel=0.01)
