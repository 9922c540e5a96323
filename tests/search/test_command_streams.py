"""The price of command streams beside Vela's total: shown, and a warning where they disagree."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from cost_models.command_stream import KindPrice, StreamPrice
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures, disagreement
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Rates
from tests.graphs import transposed_relus

U55 = Target.of("ethos-u55-128")


def _price(cycles: int, commands: int = 1) -> StreamPrice:
    return StreamPrice(cycles, commands, {"pooling": KindPrice(commands, cycles)})


@pytest.mark.slow
def test_a_result_has_both_totals() -> None:
    """Two TRANSPOSEs less are so many commands less."""
    result = optimize_tosa(dumps(transposed_relus()), U55, options=Options(time_limit=2))
    before, after = result.command_stream["explicit"], result.command_stream["eqsat"]
    assert before and after and result.command_stream["stock"] is None
    assert after.commands < before.commands and after.cycles < before.cycles
    assert result.record()["command_stream"]["eqsat"] == asdict(after) and result.record()["referee"] == "vela"


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
    before, after = (GraphFigures(corrected=c, stream=p) for c, p in zip(cycles, prices, strict=True))
    words = disagreement(before, after)
    assert ("50 to 60 (3 to 1,000 commands)" in words) == said and bool(words) == said


def test_a_stream_that_nobody_knows_has_no_price() -> None:
    raw = RawOutput(
        stream=b"COP1" + bytes([9, 0, 0, 0]),
        read_only=b"",
        scratch=0,
        scratch_fast=0,
        inputs=[],
        outputs=[],
        operators=[],
    )
    found = GraphFigures.of(Estimate(5, (), {}, Rates(128, 1.0, 8.0, 1e9), binary=(8, 0), raw=raw), U55)
    assert found.cycles == 5 and found.stream is None
