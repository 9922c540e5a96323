"""Forms that need less memory are found where nothing fast fits, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import ON_THE_NEWEST_VELA, conv, finish


def options(folder: Path, **more: object) -> Options:
    return Options(cache=folder / "prices", extractor="dag_greedy", **more)  # type: ignore[arg-type]


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_halves_fit_where_weights_of_two_convolutions_do_not(tmp_path: Path) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 48), "INT8")
    both = [conv(g, x, 32, kernel=5, seed=seed) for seed in (0, 1)]
    buffer = dumps(finish(g, g.add("concat", both, axis=3)))
    most = optimize_tosa(buffer, "ethos-u55-128", options=options(tmp_path, max_sram="any", max_flash="any"))
    limit = most.footprint.sram - 6000
    found = optimize_tosa(buffer, "ethos-u55-128", options=options(tmp_path, max_sram=limit, max_flash="any"))
    assert found.verified and found.footprint.sram <= limit and found.cycles < 1.15 * most.cycles
    assert found.run is not None and {"halved-conv-channels"} <= set(found.run.rules)
    assert most.run is not None and not {"halved-conv-channels"} & set(most.run.rules)


@ON_THE_NEWEST_VELA
def test_a_pad_gives_up_its_constant_where_flash_runs_short(tmp_path: Path) -> None:
    g = TensorGraph()
    x = g.add_with("clamp", [g.add_input("x", (1, 16, 16, 48), "INT8")], makers.clamp("INT8", 0, 90))
    padded = g.add_with("pad", [x], makers.pad((0, 0, 0, 8, 0, 0, 0, 0), -7))
    buffer = dumps(finish(g, g.add_with("clamp", [padded], makers.clamp("INT8", -8, 70))))
    found = optimize_tosa(buffer, "ethos-u85-256", options=options(tmp_path, max_sram="any", max_flash=4096))
    assert found.verified and found.footprint.payload <= 4096 and "pad" not in found.run.tensor_graph().op_counts()
