"""The loop, on an oracle without Vela: what is compiled, in which order, and when it ends; the oracle compiles once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cost_models.command_stream import price
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision, MemoryLimits
from eqsat.options.options import Options
from eqsat.search import optimizer
from eqsat.search import oracle as module
from eqsat.search.interruption import Interruption
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import Ask, Asking, State, Step, starting_points
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate, compile_tosa
from tests.fake_oracle import FakeOracle, by_total, estimate
from tests.graphs import U55, U85, widening
from tests.term import finish

NOTHING = finish(TensorGraph())
#: Of `of_choice`.
CHOICES = {"old": {0: 0}, "new": {0: 1}}


def named(name: str) -> Candidate:
    """A candidate of which only the name counts."""
    return Candidate("eqsat", NOTHING, name.encode(), by="test")


def loop(cycles: dict[str, int], ahead: int = 1, **more: Any) -> tuple[Loop, FakeOracle]:
    """A loop whose oracle knows cycles by name, and refuses all else."""

    def figures(c: Candidate) -> Estimate | None:
        known = cycles.get(c.tosa.decode())
        return None if known is None else estimate(known)

    oracle = FakeOracle(figures, ahead)
    return Loop(oracle, **more), oracle


def state(*known: Compiled, sram: int | None = None) -> State:
    decision = Decision(limits=MemoryLimits(sram=sram))
    return State(U55, Options(), decision=decision).with_graphs(known)


def names(graphs: Any) -> list[str]:
    return [g.tosa.decode() if g else "refused" for g in graphs]


def test_a_proposal_is_sent_what_it_asked_for_in_its_order() -> None:
    seen = []

    def propose(state: State) -> Asking:
        state = yield Ask([named("slow"), named("none"), named("fast")])
        seen.append((names(state.results), state.best and state.best.tosa))
        state = yield Ask([named("fast")])
        seen.append((names(state.results), state.best and state.best.tosa))

    own, oracle = loop({"slow": 7, "fast": 5})
    end = own.drive(state(), propose)
    assert seen == [(["slow", "refused", "fast"], b"fast"), (["fast"], b"fast")]
    assert names(end.graphs) == ["slow", "fast"] and names(end.front) == ["fast", "slow"]
    assert names(oracle.begun) == ["slow", "none", "fast"], "nothing is compiled twice"
    assert own.warnings == ["a candidate was dropped: no"]
    assert [(e.proposal, e.cycles) for e in own.extractions] == [("propose", 7), ("propose", 5)]


def one_by_one(count: int) -> Any:
    def propose(state: State) -> Asking:
        for k in range(count):
            ahead = (named(str(n)) for n in range(k + 1, count))
            yield Ask([named(str(k))], likely=ahead)

    return propose


def test_only_new_compilations_count_for_a_budget() -> None:
    own, oracle = loop({str(k): 9 - k for k in range(9)})
    begun = own.drive(state(), one_by_one(2))
    end = own.drive(begun, one_by_one(9), most=3)
    assert names(end.graphs) == names(oracle.begun) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_what_is_begun_ahead_changes_no_result(ahead: int) -> None:
    """It is begun as far as there are workers and budget."""
    own, oracle = loop({str(k): 9 - k for k in range(9)}, ahead)
    assert names(own.drive(state(), one_by_one(9), most=5).graphs) == ["0", "1", "2", "3", "4"]
    assert names(oracle.begun) == ["0", "1", "2", "3", "4"]


def test_an_interruption_ends_after_what_is_asked_for() -> None:
    interruption, reached = Interruption(), []

    def propose(state: State) -> Iterator[Ask]:
        interruption.ask()
        yield Ask([named("last")])
        reached.append("the next question")

    own, _ = loop({"last": 5}, interruption=interruption)
    with interruption.active():
        end = own.drive(state(), propose)
        assert names(end.graphs) == ["last"] and not reached and not own.warnings
        assert own.drive(end, one_by_one(3)) is end, "and later proposals do not begin"


def test_a_proposal_that_fails_loses_what_it_had_not_found_yet() -> None:
    def propose(state: State) -> Iterator[Ask]:
        yield Ask([named("found")])
        raise ValueError("planted")

    own, _ = loop({"found": 5})
    assert names(own.drive(state(), propose).graphs) == ["found"]
    assert own.warnings == ["no alternatives were found: ValueError: planted"]


def test_each_result_is_logged_with_its_proposal(caplog: pytest.LogCaptureFixture) -> None:
    own, _ = loop({"0": 12_345})
    with caplog.at_level(logging.INFO, "eqsat"):
        own.drive(state(), one_by_one(1))
    assert "12,345 cycles by propose with test" in caplog.messages
    assert caplog.messages[-1] == "propose ended, 1 new graphs"


def at(name: str, cycles: int, sram: int) -> Compiled:
    return by_total(named(name), estimate(cycles, sram))


def test_a_step_sets_out_from_the_best_graph_and_from_faster_ones_that_do_not_fit() -> None:
    best, near, fast, slow = at("best", 100, 10), at("near", 95, 11), at("fast", 90, 40), at("slow", 110, 10)
    known = state(slow, fast, near, best, sram=10)
    assert starting_points(known, known.decision, lambda c: True) == [best, near, fast]
    assert starting_points(known, known.decision, lambda c: c is slow) == [slow]
    own, _ = loop({"from best": 99, "from near": 98, "from fast": 97})

    def propose(state: State) -> Asking:
        assert state.start is state.best is not None
        yield Ask([named(f"from {state.start.tosa.decode()}")])

    end = own.improve(known, [Step(propose, 0.02)], lambda c: True)
    assert names(end.graphs[4:]) == ["from best", "from near", "from fast"] and end.start is end.best is None
    idle = replace(known, options=Options(effort=0))
    assert own.improve(idle, [Step(propose, 1)], lambda c: True) is idle, "without effort nothing is tried"


def test_what_is_far_behind_is_no_start_unless_memory_is_wanted() -> None:
    ahead, behind = at("ahead", 100, 10), at("behind", 120, 5)
    known = state(ahead, behind)
    assert starting_points(known, Decision(), lambda c: c is behind) == []
    assert starting_points(known, Decision("sram"), lambda c: c is behind) == [behind]


def test_a_better_choice_is_rewritten_though_one_that_was_rewritten_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "memory", lambda state: (ask for ask in ()))
    monkeypatch.setattr(optimizer, "REWRITINGS", [Step(rewrite, 1)])
    found = [of_choice("old", 100), of_choice("old, rewritten", 90), of_choice("new", 96)]
    own, _ = loop({"old, rewritten, rewritten": 90, "new, rewritten": 85})
    end = optimizer.improve(own, state(*found), SimpleNamespace(begin=lambda c: None))
    assert names(end.front[:1]) == ["new, rewritten"]


def of_choice(name: str, cycles: int) -> Compiled:
    return by_total(candidate_of_choice(name), estimate(cycles))


def candidate_of_choice(name: str) -> Candidate:
    """A candidate of one of two choices, "old" or "new", as it was chosen or rewritten."""
    choice = CHOICES[name.partition(",")[0]]
    return replace(named(name), choices=SimpleNamespace(), choice=choice, is_rewritten=name.endswith("rewritten"))


def rewrite(state: State) -> Asking:
    if state.start is not None:
        yield Ask([candidate_of_choice(f"{state.start.tosa.decode()}, rewritten")])


def test_what_was_begun_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=compile_tosa)
    monkeypatch.setattr(module, "compile_tosa", counted)
    graph, settings = widening(), ("--optimise=Size",)
    plain, small = (Candidate("eqsat", graph, dumps(graph), settings=s) for s in ((), settings))
    with Pool(2) as pool:
        oracle = Oracle(U85, pool)
        for candidate in (plain, plain, small):
            oracle.begin(candidate)
        found = [oracle.compile(c) for c in (plain, small)]
        expected = [compile_tosa(c.tosa, U85.with_flags(c.settings), pool) for c in (plain, small)]
    assert counted.call_count == 2 and oracle.ahead == 2
    assert [f.estimate.cycles for f in found] == [e.cycles for e in expected]
    assert [f.figures[:2] for f in found] == [(price(e.stream, U85).cycles, e.sram_peak) for e in expected]
    for f in found:
        assert sum(r.priced for r in f.estimate.rows) == pytest.approx(f.figures.cycles, rel=0.02)


def test_a_refusal_is_told_only_to_those_who_ask(pool: Pool) -> None:
    graph = widening()
    oracle = Oracle(U85, pool)
    oracle.begin(Candidate("eqsat", graph, b"none"))
    assert oracle.compile(Candidate("eqsat", graph, dumps(graph))).figures.cycles
    with pytest.raises(WorkerError):
        oracle.compile(Candidate("eqsat", graph, b"none"))
