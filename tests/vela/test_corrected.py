"""Corrected totals: what broadcast operands, pieces of dilated convolutions and shared weights are charged."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cost_models.calibration import vela_constants
from cost_models.command_stream import price
from eqsat.device.compile import binary_of, raw_of
from eqsat.device.core.commands import Elementwise
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import Estimate, compile_graph, compile_tflite
from eqsat.vela.corrections import correct_piece, correct_reuse, reusing
from eqsat.vela.facts import is_table_by_default, version
from eqsat.vela.table import InSram
from eqsat.vela.traffic import Cut, elements_read
from tests.graphs import channel_shuffle, conv_graph, products, residual, transposed_relus
from tests.term import Term, graph, inputs, outputs

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def of_products(estimate: Estimate) -> int:
    """Corrected cycles of the products alone."""
    return sum(r.corrected for r in estimate.rows if r.operator == "Mul")


@pytest.mark.parametrize("target", TARGETS)
def test_products_cost_the_same_wherever_their_constants_lie(target: str, worker: Worker) -> None:
    """By Vela's own total of 5.2 ten times as much on U55, twice on U65."""
    as_they_are, staged = (compile_graph(products(s), Target.of(target), worker) for s in (False, True))
    assert of_products(as_they_are) == pytest.approx(of_products(staged), rel=0.001)
    assert as_they_are.corrected < staged.corrected, "a CLAMP that does nothing must not pay"
    if target != "ethos-u85-256":
        assert as_they_are.corrected < 0.5 * as_they_are.cycles


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize(
    ("shape", "by"),
    [
        ((1, 32, 32, 48), (1, 1, 32, 48)),
        ((1, 128, 4, 32), (1, 128, 1, 32)),
        ((1, 128, 4, 32), (1, 128, 4, 1)),
        ((1, 32, 32, 48), (1, 1, 1, 48)),
    ],
)
def test_reads_are_those_of_the_commands_blocks(
    target: str, shape: tuple[int, ...], by: tuple[int, ...], worker: Worker
) -> None:
    """Counted in the command of the second product, whose other operand and result lie in another memory, with bursts
    of 128 bytes that begin anew with each piece of the operand."""
    estimate = compile_graph(products(False, shape, by), Target.of(target), worker)
    command = [c for c in binary_of(raw_of(estimate)).commands() if isinstance(c, Elementwise)][1]
    row = [r for r in estimate.rows if r.operator == "Mul"][1]
    read = 0
    for corner in product(*(range(0, n, b) for n, b in zip(shape[1:], command.block.shape))):
        inside = [min(b, n - at) for n, b, at in zip(shape[1:], command.block.shape, corner)]
        h, w, c = (min(i, n) for i, n in zip(inside, by[1:]))
        together = w * c if c == by[3] else c
        read += h * w * c // together * -(-together // 128) * 128
    reading = read / estimate.rates.weights
    assert row.corrected == pytest.approx(max(row.npu_cycles, reading), rel=0.1)
    if target == "ethos-u55-128" and by != (1, 1, 1, 48) and not is_table_by_default(version()):
        assert reading > row.npu_cycles, "the bytes have to be what counts here"


@pytest.mark.parametrize("target", TARGETS)
def test_no_row_is_dearer_than_vela_says(target: str, worker: Worker) -> None:
    rows = compile_graph(products(False, (1, 3, 5, 7)), Target.of(target), worker).rows
    assert all(r.npu_cycles <= r.corrected <= r.cycles for r in rows)


def test_rows_of_a_tflite_are_corrected(worker: Worker) -> None:
    model = Path(__file__).parent.parent / "bench/data/conv_cumsum.tflite"
    estimate = compile_tflite(model.read_bytes(), Target.of("ethos-u55-128"), worker)
    assert 0 < estimate.corrected <= estimate.cycles and all(r.corrected <= r.cycles for r in estimate.rows)


def test_what_is_read_is_counted_block_by_block() -> None:
    """Against a loop over stripes and their blocks that notes what each needs."""
    random = np.random.default_rng(0)
    for _ in range(200):
        result = tuple(map(int, random.integers(1, 9, 4)))
        shape = tuple(1 if random.random() < 0.5 else n for n in result)
        stripe = tuple(int(random.integers(1, n + 1)) for n in result)
        block = tuple(map(int, random.integers(1, 5, 4)))
        read = 0
        for begin in product(*(range(0, n, s) for n, s in zip(result, stripe))):
            ends = [min(b + s, n) for b, s, n in zip(begin, stripe, result)]
            for corner in product(*(range(b, e, k) for b, e, k in zip(begin, ends, block))):
                inside = (min(c + k, e) - c for c, k, e in zip(corner, block, ends))
                read += int(np.prod([1 if n == 1 else i for n, i in zip(shape, inside)]))
        assert elements_read(shape, result, Cut(stripe, block)) == read  # type: ignore[arg-type]


def dilated(dilation: int) -> TensorGraph:
    return graph("x:INT8[1,32,32,48]", lambda x: x.layer(48, 3, dilation=dilation))


@pytest.mark.parametrize("target", TARGETS)
def test_a_dilated_convolution_costs_about_what_its_commands_do(target: str, worker: Worker) -> None:
    """By Vela's own constants; by Vela's own total of 5.2 thirteen times as much, in sixteen pieces."""
    asked = Target.of(target)
    found, whole = (compile_graph(dilated(n), asked, worker) for n in (4, 1))
    priced, plain = (price(e.stream, asked, vela_constants(asked)) for e in (found, whole))
    assert priced.by_kind["convolution"].commands == 16
    assert "u85" not in target or plain.cycles < priced.cycles
    assert priced.cycles / 1.5 < found.corrected < 1.5 * priced.cycles
    assert len(found.operators) == 16 and found.cycles > 10 * found.corrected


def test_a_piece_waits_for_its_weights_as_a_whole_does() -> None:
    row = {"operator": "Conv2D", "op_cycles": "1000", "npu_cycles": "1000"}
    piece = {"ofm_slice_h": "7", "ofm_strides_h": "4", "ofm_slice_w": "8", "ofm_strides_w": "1"}
    waits = {"weight_buffering": "Single", "weight_transfer_cycles": "300"}
    computes, idles = ({"mac_cycles": n, "ao_cycles": "10"} for n in ("600", "200"))
    assert correct_piece(row, piece, idles) == int(1000 * 2 / 7)
    assert correct_piece(row, piece | waits, idles) == 300 + int(700 * 2 / 7)
    assert correct_piece(row, piece | waits | {"weight_pre_buffer": "1"}, idles) == int(1000 * 2 / 7)
    assert correct_piece(row, piece, computes) == int(600 * 2 / 7 + 400)
    assert correct_piece(row, piece | waits, computes) == int(300 + 600 * 2 / 7 + 100)
    assert correct_piece(row | {"operator": "MaxPool"}, piece, idles) == 1000


STEPS = 8


def with_weights(others: bool) -> TensorGraph:
    """Products of one matrix with each of STEPS rows, or of one matrix each."""
    random = np.random.default_rng(0)
    (x,) = inputs(f"x:INT8[1,1,{STEPS},40]")
    weights = [x.const(random.integers(-127, 128, (256, 1, 1, 40))) for _ in range(STEPS)]
    bias = x.const(random.integers(-9, 9, 256), "INT32")

    def product(t: int) -> Term:
        operands = weights[t if others else 0], bias
        return x.part(t, 1, 2).made("conv2d", makers.conv("INT8"), *operands).rescale("INT8", shift=40)

    return outputs(*map(product, range(STEPS)))


def test_weights_that_are_shared_are_charged_one_copy(worker: Worker) -> None:
    """By Vela's own total each product waits for a copy, of which the stream has one."""
    target = Target.of("ethos-u55-128")
    found = compile_graph(with_weights(others=False), target, worker)
    by_commands = price(found.stream, target, vela_constants(target)).cycles
    assert by_commands / 1.1 < found.corrected < 1.1 * by_commands
    assert found.cycles > 3 * found.corrected


#: Without operands that broadcast, convolutions that are cut, or weights that are shared.
AS_THEY_ARE = {
    **{f.__name__: f() for f in (residual, transposed_relus, channel_shuffle, conv_graph)},
    **{"dilated by 1": dilated(1), "weights of its own": with_weights(others=True)},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("given", AS_THEY_ARE.values(), ids=AS_THEY_ARE)
def test_what_needs_no_correction_costs_what_vela_says(given: TensorGraph, target: str, worker: Worker) -> None:
    estimate = compile_graph(given, Target.of(target), worker)
    assert estimate.corrected == estimate.cycles == sum(r.cycles for r in estimate.rows)


def operator(number: int, step: int, size: int = 64, **more: str) -> dict[str, str]:
    common = {"weight_buffering": "Single", "weight_max_range_bytes": str(size)}
    return {"id": str(number), "time_index": str(step), **common, **more}


def buffer(name: str, first: int, last: int) -> InSram:
    return InSram(name, first, last, 0, 64)


def test_a_buffer_that_was_filled_before_is_reused() -> None:
    shared = [buffer("WB_single_64_op0", 0, 5)]
    assert reusing([operator(k, 2 * k) for k in range(3)], shared) == {"1", "2"}
    assert reusing([operator(0, 0), operator(1, 2, 32), operator(2, 4, weight_buffering="Double")], shared) == set()


def test_a_buffer_of_its_own_is_not_reused() -> None:
    """It is filled while the operator before it runs, which may have one of the same size."""
    own = [buffer(f"WB_single_64_op{k}", max(0, 2 * k - 1), 2 * k + 1) for k in range(3)]
    assert reusing([operator(k, 2 * k) for k in range(3)], own) == set()
    early = [own[0], buffer("WB_single_64_op1", 0, 3)]
    assert reusing([operator(0, 0), operator(1, 2)], early) == set()


def test_operators_of_a_cascade_share_a_step_and_are_left_alone() -> None:
    """As in a pixel shuffle on U55 with an arena of 40,576 bytes."""
    buffers = [buffer("WB_single_64_op1", 0, 5), buffer("WB_single_64_op2", 2, 3)]
    cascade = [operator(1, 2, cascade="1"), operator(2, 2, cascade="1")]
    assert reusing([operator(0, 0, 32), *cascade, operator(3, 4)], buffers) == set()


def test_what_is_reused_costs_no_copy() -> None:
    row = {"operator": "Conv2D", "op_cycles": "1000", "npu_cycles": "1000", "Sram_ac": "300", "OffChipFlash_ac": "400"}
    details, blocks = {"OffChipFlashScales_ac": "350"}, {"mac_cycles": "200", "ao_cycles": "10"}
    assert correct_reuse(row, details, blocks, "OffChipFlash") == 300
    newer = {"est_op_cycles_without_buffering": "420", "est_op_cycles_with_buffering": "990"}
    assert correct_reuse(row, details | newer, blocks, "OffChipFlash") == 430
