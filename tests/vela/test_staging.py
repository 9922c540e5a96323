"""Corrected totals: what operators are charged whose weights another one has copied into SRAM."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.command_stream import price
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import Estimate, compile_graph
from eqsat.vela.facts import facts
from eqsat.vela.staging import corrected_reuse
from eqsat.workers.worker import Worker
from tests.graphs import finish, rescale

STEPS = 8


def products(other_weights: bool, target: str, worker: Worker) -> Estimate:
    """Of one matrix with each of STEPS rows, or of one matrix each."""
    g, random = TensorGraph(), np.random.default_rng(0)
    x, outputs = g.add_input("x", (1, 1, STEPS, 40), "INT8"), []
    weights = [g.add_const(random.integers(-127, 128, (256, 1, 1, 40)), "INT8") for _ in range(STEPS)]
    b = g.add_const(random.integers(-9, 9, 256), "INT32")
    for t in range(STEPS):
        row = g.add("slice", (x,), start=(0, 0, t, 0), size=(1, 1, 1, 40))
        y = g.add_with("conv2d", (row, weights[t if other_weights else 0], b), makers.conv("INT8"))
        outputs.append(rescale(g, y, "INT8", shift=(40,)))
    return compile_graph(finish(g, *outputs), Target.of(target), worker)


def test_weights_that_are_shared_are_charged_one_copy(worker: Worker) -> None:
    """By Vela's own total each product waits for a copy, of which the stream has one."""
    found = products(False, "ethos-u55-128", worker)
    by_commands = price(found.stream, Target.of("ethos-u55-128")).cycles
    assert by_commands / 1.1 < found.corrected < 1.1 * by_commands
    if facts().copies_charged_again:
        assert found.cycles > 3 * found.corrected


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_weights_of_its_own_are_charged_as_they_are(target: str, worker: Worker) -> None:
    found = products(True, target, worker)
    assert found.corrected == found.cycles


def test_only_a_buffer_of_another_operator_is_free() -> None:
    row = {"operator": "Conv2D", "op_cycles": "1000", "npu_cycles": "1000", "Sram_ac": "300", "OffChipFlash_ac": "400"}
    single = {"weight_buffering": "Single", "time_index": "6", "OffChipFlashScales_ac": "350"}
    blocks = {"mac_cycles": "200", "ao_cycles": "10"}

    def of(details: dict[str, str], *buffers: str) -> int:
        return corrected_reuse(row, details, blocks, buffers, "OffChipFlash")

    assert of(single, "WB_single_64_op0") == 300
    assert of(single, "WB_single_64_op3") == of(single | {"weight_buffering": "Double"}) == 1000
    newer = {"est_op_cycles_without_buffering": "420", "est_op_cycles_with_buffering": "990"}
    assert of(single | newer, "WB_single_64_op13") == 430
