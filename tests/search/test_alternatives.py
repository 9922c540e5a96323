"""What extraction finds is compiled once each, and what Vela refuses costs only itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eqsat.egraph.encoding import saturate
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.alternatives import by_cycles, improved
from eqsat.search.search import Search
from eqsat.target import Target
from tests.choice.test_choice import forked


class Refusing(Pool):
    """Requests whose numbers are in `refused` are refused, as Vela does it. The analytic model makes none of its
    own."""

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
            return [c.tosa for c in improved(search, by_cycles(search, frozen), Decision()).graphs], search

    both, whole = found()
    assert len(both) == 2 and whole.warnings == []
    assert [e.extractor for e in whole.extractions] == ["dag_greedy", "tree_greedy"]
    kept, partial = found(1)
    assert kept == both[:1] and len(partial.extractions) == 1
    assert partial.warnings == ["a candidate was dropped: no"]
    none, nothing = found(*range(9))
    assert none == [] and nothing.extractions == [] and set(nothing.warnings) == {"a candidate was dropped: no"}
