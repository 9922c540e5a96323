"""What extraction finds is compiled once each, and what Vela refuses costs only itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.egraph.encoding import saturate
from eqsat.rules import RULES
from eqsat.search.alternatives import Search
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.options import Options
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.workers.worker import Pool, WorkerError
from tests.graphs import ON_THE_NEWEST_VELA, finish, rescale
from tests.search.test_choice import forked


class Refusing(Pool):
    """Requests whose numbers are in `refused` are refused, as Vela does it. The analytic model makes none of its own."""

    def __init__(self, *refused: int) -> None:
        super().__init__(1)
        self.refused, self.requests = refused, 0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.requests += 1
        if self.requests - 1 in self.refused:
            raise WorkerError("no", refused=True)
        return super().call(*args, **kwargs)


def test_a_refused_candidate_costs_only_itself(tmp_path: Path) -> None:
    frozen = saturate(forked(), RULES)
    options = Options(cost_model="analytic", extractor="tree_greedy", time_limit=1, cache=tmp_path / "prices")
    target = Target.of("ethos-u85-256")

    def found(*refused: int) -> tuple[list[bytes], Search]:
        with Refusing(*refused) as pool:
            search = Search(target, pool, options)
            return [c.tosa for c in search.alternatives(frozen)], search

    both, whole = found()
    assert len(both) == 2 and whole.warnings == []
    assert [e.extractor for e in whole.extractions] == ["dag_greedy", "tree_greedy"]
    kept, partial = found(1)
    assert kept == both[:1] and len(partial.extractions) == 1
    assert partial.warnings == ["a candidate was dropped: no"]
    none, nothing = found(*range(9))
    assert none == [] and nothing.extractions == [] and nothing.warnings == ["a candidate was dropped: no"]


def scaled(layers: int = 8, channels: int = 32) -> TensorGraph:
    """Products with constants per channel. Each is faster as a depthwise convolution, which takes more flash, and they are all alike."""
    g, rng = TensorGraph(), np.random.default_rng(0)
    x = g.add_input("x", (1, 16, 16, channels), "INT8")
    for i in range(layers):
        points = g.add_const(rng.integers(-100, 100, (1, 1, 1, channels)), "INT32")
        x = rescale(g, g.add("mul", [rescale(g, x, "INT32"), points], shift=(0,)), "INT8", shift=(37 + i % 2,))
    return finish(g, x)


@ON_THE_NEWEST_VELA
def test_of_equal_gains_as_many_are_taken_as_fit_into_flash(tmp_path: Path) -> None:
    given = dumps(scaled())
    options = Options(extractor="dag_greedy", time_limit=5, cache=tmp_path / "p", max_sram="any", max_flash="any")
    free = optimize_tosa(given, "ethos-u55-128", stock=given, options=options)
    least, most = free.stock_footprint.payload, free.footprint.payload
    assert free.cycles < free.stock_cycles / 10 and most > 2 * least
    half = optimize_tosa(given, "ethos-u55-128", stock=given, options=replace(options, max_flash=(least + most) // 2))
    assert half.verified and half.footprint.payload <= (least + most) // 2
    assert half.cycles < 0.75 * free.stock_cycles
