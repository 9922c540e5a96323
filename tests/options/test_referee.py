"""The price of command streams beside Vela's total: shown, a warning where they disagree, and deciding where it is
asked to."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from cost_models.command_stream import KindPrice, StreamPrice
from eqsat.choice.compiled import Compiled
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision
from eqsat.options.options import OptionError, Options
from eqsat.options.referee import Referee, disagreement, total
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate, compile_graph
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Rates
from eqsat.verification.verification import in_order
from tests.graphs import finish, residual, transpose, transposed_relus

U55, U85 = Target.of("ethos-u55-128"), Target.of("ethos-u85-256")


@pytest.fixture
def options() -> Options:
    return Options(time_limit=2)


def _price(cycles: int, commands: int = 1) -> StreamPrice:
    return StreamPrice(cycles, commands, {"pooling": KindPrice(commands, cycles)})


@pytest.mark.slow
def test_a_result_has_both_totals(options: Options) -> None:
    """Two TRANSPOSEs less are so many commands less."""
    result = optimize_tosa(dumps(transposed_relus()), U55, options=options)
    before, after = result.command_stream["explicit"], result.command_stream["eqsat"]
    assert before and after and result.command_stream["stock"] is None
    assert after.commands < before.commands and after.cycles < before.cycles
    assert result.record()["command_stream"]["eqsat"] == asdict(after)


@pytest.mark.parametrize(
    ("cycles", "prices", "said"),
    [
        ((100, 90), (_price(50, 3), _price(60, 1000)), True),
        ((100, 90), (_price(50), _price(50)), False),
        ((100, 100), (_price(50), _price(60)), False),
        ((100, 90), (None, _price(60)), False),
    ],
)
def test_a_gain_that_the_commands_do_not_show_is_marked(
    cycles: tuple[int, int], prices: tuple[StreamPrice | None, StreamPrice | None], said: bool
) -> None:
    words = disagreement(cycles, prices)
    assert ("50 to 60 (3 to 1,000 commands)" in words) == said and bool(words) == said


def test_the_referee_that_is_asked_for_ranks(pool: Pool, options: Options) -> None:
    """A TRANSPOSE that Vela prices at less than a sum, in the order of either total."""
    g, h = TensorGraph(), TensorGraph()
    one = finish(g, transpose(g, g.add_input("x", (1, 64, 64, 16), "INT8"), 0, 1, 3, 2))
    both = finish(h, transpose(h, h.add_input("x", (1, 16, 16, 16), "INT8"), 0, 2, 1, 3))
    ranks = []
    for referee in ("vela", "command-stream"):
        judge = Referee(U55, replace(options, referee=referee))
        found = []
        for graph in (one, both):
            estimate = compile_graph(graph, U55, pool)
            # the second is made costlier than the first by Vela's total, and stays what its commands cost
            estimate = replace(estimate, cycles=estimate.cycles * (1 if graph is one else 100))
            found.append(Compiled("eqsat", graph, dumps(graph), estimate, judged=judge.decisive(estimate)))
        ranks.append([c.graph is one for c in in_order(found, Decision(), lambda c: False)])
    assert ranks == [[True, False], [False, True]]


@pytest.mark.slow
def test_it_decides_all_of_a_run(options: Options) -> None:
    result = optimize_tosa(dumps(transposed_relus()), U55, options=replace(options, referee="command-stream"))
    found = result.command_stream["eqsat"]
    assert result.chosen == "eqsat" and found is not None
    assert min(p.figures.cycles for p in result.points if p.fits) == found.cycles != result.cycles
    charged = optimize_tosa(dumps(transposed_relus()), U55, options=replace(options, command_cycles=1000.0))
    stream = charged.command_stream["eqsat"]
    assert charged.cycles == result.cycles and stream is not None and stream.cycles >= found.cycles + 1000


def test_it_decides_on_u85(options: Options) -> None:
    """Where one of its totals for this graph is Vela's own."""
    result = optimize_tosa(dumps(residual()), U85, options=replace(options, effort=0, referee="command-stream"))
    found = result.command_stream["eqsat"]
    assert found is not None and {p.figures.cycles for p in result.points} >= {found.cycles}
    assert found.cycles == pytest.approx(result.cycles, rel=0.02)


def test_a_referee_or_price_that_there_is_not(options: Options) -> None:
    with pytest.raises(OptionError, match="command-stream, vela"):
        replace(options, referee="guess")
    with pytest.raises(OptionError, match="command_cycles is -1: give at least 0"):
        replace(options, command_cycles=-1)


def test_a_stream_that_nobody_knows_has_no_price_and_cannot_decide(options: Options) -> None:
    raw = RawOutput(
        stream=b"COP1" + bytes([9, 0, 0, 0]),
        read_only=b"",
        scratch=0,
        scratch_fast=0,
        inputs=[],
        outputs=[],
        operators=[],
    )
    estimate = Estimate(5, (), {}, Rates(128, 1.0, 8.0, 1e9), raw=raw)
    assert Referee(U55, options).price(estimate) is None
    with pytest.raises(OptionError, match="cannot price a graph"):
        Referee(U55, replace(options, referee="command-stream")).decisive(estimate)


def test_delegates_add_up_where_all_are_known() -> None:
    assert total([_price(5, 2), _price(6, 3)]) == _price(11, 5)
    assert total([_price(5), None]) is None and total([]) is None
