"""What extraction finds is compiled once each, and what Vela refuses costs only itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from eqsat.egraph.encoding import saturate
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.alternatives import by_cycles, improved, share_behind, time_share
from eqsat.search.search import Search
from eqsat.target import Target
from eqsat.tosa import loads
from tests.choice.test_choice import forked

UPSCALE = Path(__file__).parents[2] / "examples/upscale.tosa"


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


def test_no_round_follows_one_that_ran_out_of_time_in_vain(tmp_path: Path, pool: Pool) -> None:
    options = Options(
        extractor="tests.planted_extractors:dearest",
        time_limit=1,
        rounds=3,
        cache=tmp_path / "prices",
    )
    search = Search(Target.of("ethos-u85-256"), pool, options)
    rules = options.identities(search.target)
    by_cycles(search, saturate(loads(UPSCALE.read_bytes()), rules, options.budget))
    *others, last = search.extractions
    assert last.extractor == options.extractor and all(e.extractor == "dag_greedy" for e in others)
    assert last.cycles > 1.02 * min(e.cycles for e in others)


def test_the_less_is_known_of_a_choice_the_sooner_its_rounds_end() -> None:
    proved, near, vague, unknown = map(share_behind, (0.0, 0.02, 0.06, math.inf))
    assert proved > near > vague == unknown == 0


def test_only_the_last_extraction_has_the_whole_time_and_only_with_a_proof_in_reach() -> None:
    assert time_share(True, 0.02) == time_share(True, math.inf) == 1.0
    assert time_share(True, 0.06) == time_share(False, 0.02) == time_share(False, math.inf) < 1.0
