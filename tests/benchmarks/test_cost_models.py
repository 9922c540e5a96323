"""The accuracy benchmark: its figures, its records, and a user's own model in its table."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cost_models import __main__ as command
from benchmarks.cost_models.metrics import kendall, spearman
from eqsat.tosa import dumps
from tests.graphs import channel_shuffle, conv, finish, relu, transpose

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TARGET = "ethos-u55-128"


def branches():
    """Two transposed branches of which each may keep its movement or lose it."""
    from eqsat.tensor.graph import TensorGraph

    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 6, 6, 16), "INT8"), 16)
    parts = [
        transpose(g, relu(g, transpose(g, conv(g, x, 16, seed=k), 0, 3, 1, 2), -90 + k), 0, 2, 3, 1) for k in range(2)
    ]
    return finish(g, conv(g, g.add("concat", parts, axis=3), 8, seed=9))


def test_correlations_against_worked_examples() -> None:
    a, b = np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 3, 2, 5, 4])
    assert spearman(a, a) == pytest.approx(1) and spearman(a, -a) == pytest.approx(-1)
    assert spearman(a, b) == pytest.approx(1 - 6 * 4 / (5 * 24))  # 1 - 6 sum d^2 / (n (n^2 - 1))
    assert kendall(a, b) == pytest.approx((8 - 2) / 10)
    assert kendall(np.array([1.0, 1, 2]), np.array([1.0, 2, 3])) == pytest.approx(2 / math.sqrt(2 * 3))


def test_a_users_model_is_in_the_table_and_cells_are_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, graph in (("branches", branches()), ("shuffle", channel_shuffle())):
        (tmp_path / f"{name}.0.{TARGET}.explicit.tosa").write_bytes(dumps(graph))
    out = tmp_path / "out.json"
    args = [
        "--models",
        "branches,shuffle",
        "--targets",
        TARGET,
        "--samples",
        "4",
        "--tosa",
        str(tmp_path),
        "--json",
        str(out),
        "--cost-model",
        f"{ROOT / 'examples/cost_model.py'}:Roofline",
    ]
    command.main(args)
    records = json.loads(out.read_text())
    assert {r["model"] for r in records} == {"branches", "shuffle"}
    assert {r["cost_model"] for r in records} == {
        "op_count",
        "bytes_moved",
        "analytic",
        "vela_groups",
        "Roofline",
    }
    assert all(
        {"model", "target", "cost_model", "mape", "spearman", "kendall", "regret", "ms"} <= r.keys() for r in records
    )
    assert all(r["spearman"] >= 0.8 for r in records if r["cost_model"] == "vela_groups")
    assert "Roofline" in out.with_suffix(".md").read_text() and "Roofline" in capsys.readouterr().out

    def never(*args, **kwargs):
        raise AssertionError("the cells are there already")

    monkeypatch.setattr(command, "run_cell", never)
    command.main(args)
    assert json.loads(out.read_text()) == records
