"""Corrected totals: what the pieces of a dilated convolution are charged."""

from __future__ import annotations

import pytest

from cost_models.calibration import vela_constants
from cost_models.command_stream import price
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import Estimate, compile_graph
from eqsat.vela.pieces import corrected_piece
from tests.graphs import conv, finish

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def compiled(dilation: int, target: str, worker: Worker) -> Estimate:
    g = TensorGraph()
    x = g.add_input("x", (1, 32, 32, 48), "INT8")
    return compile_graph(finish(g, conv(g, x, 48, 3, dilation=dilation)), Target.of(target), worker)


@pytest.mark.parametrize("target", TARGETS)
def test_a_dilated_convolution_costs_about_what_its_commands_do(target: str, worker: Worker) -> None:
    """By Vela's own constants; by Vela's own total of 5.2 thirteen times as much, in sixteen pieces."""
    found = compiled(4, target, worker)
    priced, plain = (
        price(e.stream, Target.of(target), vela_constants(Target.of(target)))
        for e in (found, compiled(1, target, worker))
    )
    assert priced.by_kind["convolution"].commands == 16
    assert "u85" not in target or plain.cycles < priced.cycles
    assert priced.cycles / 1.5 < found.corrected < 1.5 * priced.cycles
    assert len(found.operators) == 16 and found.cycles > 10 * found.corrected


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_cut_is_charged_as_it_is(target: str, worker: Worker) -> None:
    found = compiled(1, target, worker)
    assert found.corrected == found.cycles


def test_a_piece_waits_for_its_weights_as_a_whole_does() -> None:
    row = {"operator": "Conv2D", "op_cycles": "1000", "npu_cycles": "1000"}
    piece = {"ofm_slice_h": "7", "ofm_strides_h": "4", "ofm_slice_w": "8", "ofm_strides_w": "1"}
    waits = {"weight_buffering": "Single", "weight_transfer_cycles": "300"}
    computes, idles = ({"mac_cycles": n, "ao_cycles": "10"} for n in ("600", "200"))
    assert corrected_piece(row, piece, idles) == int(1000 * 2 / 7)
    assert corrected_piece(row, piece | waits, idles) == 300 + int(700 * 2 / 7)
    assert corrected_piece(row, piece | waits | {"weight_pre_buffer": "1"}, idles) == int(1000 * 2 / 7)
    assert corrected_piece(row, piece, computes) == int(600 * 2 / 7 + 400)
    assert corrected_piece(row, piece | waits, computes) == int(300 + 600 * 2 / 7 + 100)
    assert corrected_piece(row | {"operator": "MaxPool"}, piece, idles) == 1000
