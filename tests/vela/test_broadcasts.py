"""Corrected totals: what an operand that broadcasts is charged for."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from eqsat.device.ethos_u55.commands import Elementwise
from eqsat.device.stream import commands
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.vela.broadcasts import Cut, elements_read
from eqsat.vela.compile import Estimate, compile_graph, compile_tflite
from eqsat.vela.facts import is_table_by_default, version
from tests.graphs import channel_shuffle, conv_graph, products, residual, transposed_relus

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
    command = [c for c in commands(estimate.stream) if isinstance(c, Elementwise)][1]
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
@pytest.mark.parametrize("build", [residual, transposed_relus, channel_shuffle, conv_graph])
def test_what_does_not_broadcast_costs_what_vela_says(build, target: str, worker: Worker) -> None:
    estimate = compile_graph(build(), Target.of(target), worker)
    assert estimate.corrected == estimate.cycles == sum(r.cycles for r in estimate.rows)


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
