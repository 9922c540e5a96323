"""The bytes of SRAM in use are what Vela says is allocated, also where operators are in place."""

from __future__ import annotations

import pytest

from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import InSram, compile_tosa
from eqsat.vela.occupancy import in_use, occupied
from tests.graphs import add, conv, finish


def in_place() -> TensorGraph:
    """A sum that is widened to INT32 and narrowed again, and a CONCAT of two convolutions."""
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 16), "INT8")
    wide = add(g, conv(g, x, 16, seed=1), conv(g, x, 16, seed=2))
    return finish(g, conv(g, g.add("concat", [wide, conv(g, wide, 16, seed=3)], axis=3), 4, seed=4))


@pytest.mark.parametrize(("target", "is_shared"), [("ethos-u55-128", True), ("ethos-u85-256", False)])
def test_the_most_bytes_in_use_are_velas_peak(target: str, is_shared: bool, pool: Pool) -> None:
    """On U85 no tensor of this graph is in place of another."""
    estimate = compile_tosa(dumps(in_place()), Target.of(target), pool)
    used = in_use(estimate.tensors, occupied(estimate.tensors))
    sizes = [0] * len(used)
    for t in estimate.tensors:
        for step in range(t.first, t.last + 1):
            sizes[step] += t.end - t.address
    assert used.max() == estimate.sram_peak
    assert (max(sizes) > estimate.sram_peak) == is_shared


def test_shared_bytes_are_counted_once() -> None:
    whole, part, later = InSram("concat", 0, 4, 0, 32), InSram("operand", 0, 2, 16, 32), InSram("y", 3, 4, 32, 40)
    tensors = [whole, part, later]
    assert in_use(tensors, occupied(tensors)).tolist() == [32, 32, 32, 40, 40]
    assert [own.tolist() for own in occupied([whole, part])] == [[16, 16, 16, 32, 32], [16, 16, 16]]
    assert in_use([], occupied([])).tolist() == [0]
