"""Random graphs on binaries: what is counted, resumed and shown, and which defect of Vela a difference is laid to."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.device.__main__ import STUDY
from benchmarks.device.explain import explained, parts
from benchmarks.study import read_lines
from benchmarks.vela_defects import GRAPHS, product_of_a_slice
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.defects import DEFECTS
from tests.graphs import U55


def test_a_pattern_finds_the_graph_of_its_defect() -> None:
    for defect in (d for d in DEFECTS if d.patterns):
        assert next(iter(parts(defect, GRAPHS[defect.name]())), None), defect.name


def padded_slice() -> TensorGraph:
    """A slice of matrices and a product, moved in between, with operators around."""
    g = product_of_a_slice()
    y = g.add_with("rescale", [g.outputs[0]], makers.rescale("INT8", 1 << 30, 40))
    g.outputs = [g.add_with("clamp", [y], makers.clamp("INT8", -90, 90))]
    return g


def test_a_difference_is_laid_to_the_defect_whose_part_differs_by_itself() -> None:
    seen: list[list[str]] = []

    def differs(g: TensorGraph) -> bool:
        seen.append([n.op for n in g.nodes if n.op != "input"])
        return seen[-1] == ["slice", "reshape", "matmul"]

    name, cut = explained(padded_slice(), differs, U55, "5.2")
    assert name == "product_of_a_slice" and len(cut.inputs) == 2
    assert explained(padded_slice(), lambda g: True, Target.of("ethos-u85-256"), "5.2")[0] == ""


@pytest.mark.slow
def test_counts_go_on_where_they_stopped(tmp_path: Path) -> None:
    asked = ["--targets", "ethos-u55-128", "--profiles", "few operators, INT8", "--out", str(tmp_path)]
    for wanted in (2, 3):
        STUDY.main([*asked, "--graphs", str(wanted)])
    counts = [r for r in read_lines(tmp_path / "records.jsonl") if "graphs" in r]
    assert [r["graphs"] for r in counts] == [2, 1]
    assert "| ethos-u55-128 | few operators, INT8 |" in (tmp_path / "table.md").read_text()
