"""What extraction finds is compiled once each, and what Vela refuses costs only itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eqsat.egraph.encoding import saturate
from eqsat.rules import RULES
from eqsat.search.alternatives import Search
from eqsat.search.options import Options
from eqsat.target import Target
from eqsat.vela.compile import compile_tosa
from eqsat.workers.worker import Pool, WorkerError
from tests.search.test_choice import forked


class Refusing(Pool):
    """The first `refused` requests are refused, as Vela does it. The analytic model makes none of its own."""

    refused = 0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.refused -= 1
        if self.refused >= 0:
            raise WorkerError("no", refused=True)
        return super().call(*args, **kwargs)


def test_a_refused_candidate_costs_only_itself(tmp_path: Path) -> None:
    frozen = saturate(forked(), RULES)
    options = Options(cost_model="analytic", extractor="tree_greedy", time_limit=1, cache=tmp_path / "prices")
    target = Target.of("ethos-u85-256")
    with Refusing(1) as pool:
        whole = Search(target, pool, options)
        first, _ = whole.alternatives(frozen)
        assert whole.warnings == [] and [e.extractor for e in whole.extractions] == ["dag_greedy", "tree_greedy"]
        assert first.estimate == compile_tosa(first.tosa, target, pool)
        pool.refused = 1
        partial = Search(target, pool, options)
        (other,) = partial.alternatives(frozen)
        assert other.tosa != first.tosa and other.estimate == compile_tosa(other.tosa, target, pool)
        assert partial.warnings == ["a candidate was dropped: no"] and len(partial.extractions) == 1
        pool.refused = 2
        nothing = Search(target, pool, options)
        assert nothing.alternatives(frozen) == [] and len(nothing.warnings) == 2
