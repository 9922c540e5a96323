"""Corrected totals: what operators are charged whose weights another one has copied into SRAM."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.calibration import vela_constants
from cost_models.command_stream import price
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import Estimate, compile_graph
from eqsat.vela.staging import Buffer, corrected_reuse, reusing
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
    target = Target.of("ethos-u55-128")
    by_commands = price(found.stream, target, vela_constants(target)).cycles
    assert by_commands / 1.1 < found.corrected < 1.1 * by_commands
    assert found.cycles > 3 * found.corrected


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_weights_of_its_own_are_charged_as_they_are(target: str, worker: Worker) -> None:
    found = products(True, target, worker)
    assert found.corrected == found.cycles


def operator(number: int, step: int, size: int = 64, **more: str) -> dict[str, str]:
    return {
        "id": str(number),
        "time_index": str(step),
        "weight_buffering": "Single",
        "weight_max_range_bytes": str(size),
        **more,
    }


def test_a_buffer_that_was_filled_before_is_reused() -> None:
    shared = [Buffer("WB_single_64_op0", 0, 5)]
    assert reusing([operator(k, 2 * k) for k in range(3)], shared) == {"1", "2"}
    assert reusing([operator(0, 0), operator(1, 2, 32), operator(2, 4, weight_buffering="Double")], shared) == set()


def test_a_buffer_of_its_own_is_not_reused() -> None:
    """It is filled while the operator before it runs, which may have one of the same size."""
    own = [Buffer(f"WB_single_64_op{k}", max(0, 2 * k - 1), 2 * k + 1) for k in range(3)]
    assert reusing([operator(k, 2 * k) for k in range(3)], own) == set()
    early = [own[0], Buffer("WB_single_64_op1", 0, 3)]
    assert reusing([operator(0, 0), operator(1, 2)], early) == set()


def test_operators_of_a_cascade_share_a_step_and_are_left_alone() -> None:
    """As in a pixel shuffle on U55 with an arena of 40,576 bytes."""
    buffers = [Buffer("WB_single_64_op1", 0, 5), Buffer("WB_single_64_op2", 2, 3)]
    cascade = [operator(1, 2, cascade="1"), operator(2, 2, cascade="1")]
    assert reusing([operator(0, 0, 32), *cascade, operator(3, 4)], buffers) == set()


def test_what_is_reused_costs_no_copy() -> None:
    row = {"operator": "Conv2D", "op_cycles": "1000", "npu_cycles": "1000", "Sram_ac": "300", "OffChipFlash_ac": "400"}
    details, blocks = {"OffChipFlashScales_ac": "350"}, {"mac_cycles": "200", "ao_cycles": "10"}
    assert corrected_reuse(row, details, blocks, "OffChipFlash") == 300
    newer = {"est_op_cycles_without_buffering": "420", "est_op_cycles_with_buffering": "990"}
    assert corrected_reuse(row, details | newer, blocks, "OffChipFlash") == 430
