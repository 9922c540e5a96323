"""The calibrated price of command streams decides, and is told with its interval and Vela's totals beside it."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from cost_models.calibration import spread
from eqsat.choice.compiled import Candidate
from eqsat.ground.process import WorkerError
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.oracle import price_compiled
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Rates
from tests.graphs import transposed_relus

U55 = Target.of("ethos-u55-128")
#: An estimate whose stream cannot be decoded.
UNKNOWN = Estimate(
    5,
    (),
    {},
    Rates(128, 1.0, 8.0, 1e9),
    binary=(8, 0),
    raw=RawOutput(
        stream=b"COP1" + bytes([9, 0, 0, 0]),
        read_only=b"",
        scratch=0,
        scratch_fast=0,
        inputs=[],
        outputs=[],
        operators=[],
        rows=[],
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_a_result_is_dearer_by_no_price(accelerator: str) -> None:
    """Two TRANSPOSEs less are so many commands less."""
    target = Target.of(accelerator)
    graph = dumps(transposed_relus())
    result = optimize_tosa(graph, target, stock=graph, options=Options(effort=1))
    assert result.stock_calibrated and result.stock_cycles and result.change
    assert result.calibrated < result.stock_calibrated and result.cycles <= result.stock_cycles * (1 + spread(target))
    assert result.change.value == result.calibrated / result.stock_calibrated and result.change.within >= 0
    before, after = result.command_stream["explicit"], result.command_stream["eqsat"]
    assert before and after and after.cycles == result.calibrated
    record = result.record()
    assert record["command_stream"]["eqsat"] == asdict(after)
    assert (record["calibrated"], record["stock_calibrated"]) == (result.calibrated, result.stock_calibrated)
    assert sum(row["calibrated"] for row in result.table) == pytest.approx(result.calibrated, rel=0.02)


def test_a_stream_that_nobody_knows_has_no_price_and_is_no_candidate() -> None:
    found = GraphFigures.of(UNKNOWN, U55)
    assert (found.cycles, found.stream, found.ends) == (5, None, ())
    graph = transposed_relus()
    with pytest.raises(WorkerError, match="its commands have no price"):
        price_compiled(U55, Candidate("eqsat", graph, dumps(graph)), UNKNOWN)
