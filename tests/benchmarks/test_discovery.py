"""Discovery: what is cheaper is found, proved and written as a rule that passes its own tests; and the study of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.discovery.__main__ import main
from benchmarks.discovery.affine import NoRows, rows
from benchmarks.discovery.copies import Table
from benchmarks.discovery.equality import Equality, form_of
from benchmarks.discovery.find import Discoverer
from benchmarks.discovery.neighbourhoods import Neighbourhood, neighbourhoods, replaced
from benchmarks.discovery.recipes import Source, Window, begun, followed, windows
from benchmarks.discovery.study import families, planted, without
from benchmarks.discovery.terms import rearranged
from benchmarks.discovery.text import HOLDS, SPARED, module, trials
from eqsat.checking.user_rules import examine, find
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, prove
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import add, clamp, conv, conv_graph, finish


def one(shape: tuple[int, ...], build: object, dtype: str = "INT8") -> TensorGraph:
    g = TensorGraph()
    return finish(g, build(g, g.add_input("x", shape, dtype)))  # type: ignore[operator]


@pytest.mark.slow
def test_windows_are_equal_to_what_they_are_read_off() -> None:
    graph = one((1, 6, 8, 4), lambda g, x: conv(g, x, 4, 3))
    proofs = [prove(graph, m) for r in windows(graph) if (m := followed(r, Source(graph))) is not None]
    assert sum(p.verdict == PROVED for p in proofs) >= 3
    assert all(p.verdict == PROVED or p.counterexample for p in proofs)  # read off in five places, they may differ


def test_what_is_no_sum_is_not_read_off() -> None:
    twice = one((1, 4, 4, 3), lambda g, x: conv(g, conv(g, x, 3), 3))  # it rounds between
    with pytest.raises(NoRows):
        rows(twice, np.arange(3))
    assert followed(Window("conv2d", ("plain", 1), ("plain", 1)), Source(twice)) is None


def test_terms_of_the_own_operators_are_equal() -> None:
    def turned_sum(g: TensorGraph, x: int) -> int:
        a, b = (g.add("transpose", [v], perms=(0, 2, 1)) for v in (x, g.add_input("y", (1, 3, 5), "INT8")))
        return g.add("transpose", [add(g, a, b)], perms=(0, 2, 1))

    graph = one((1, 3, 5), turned_sum)
    found = [m for r in rearranged(graph, 20.0) if (m := followed(r, Source(graph))) is not None]
    assert any("transpose" not in m.op_counts() for m in found)
    assert all(prove(graph, m).verdict == PROVED for m in found)


def test_a_neighbourhood_is_replaced_in_its_graph() -> None:
    graph = one((1, 4, 4, 8), lambda g, x: add(g, conv(g, x, 8), conv(g, x, 8, 3)))
    for part in neighbourhoods(graph, 2, 4):
        assert prove(graph, replaced(graph, part, part.graph)).verdict == PROVED


def test_an_instance_must_be_proved() -> None:
    """A recipe that gives something else makes no instance."""

    class Wrong:
        text = "the input as it is"

        def follow(self, source: Source) -> TensorGraph:
            new = begun(source.graph)
            new.outputs.append(clamp(new, new.inputs[0], -128, 126))
            return new

    graph = one((1, 4), lambda g, x: clamp(g, x, -128, 100))
    form = form_of(graph)
    for recipe, instance in ((Wrong(), None), (Table(), (form.attributes[0],))):
        made = followed(recipe, Source(graph))
        assert made is not None
        assert Equality.of(graph, made, recipe).instance(form.attributes, [graph.type(0)], []) == instance


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_a_graph_to_a_rule(tmp_path: Path) -> None:
    """Without the family `blocking`, what it knows of one place is found again, and its rule passes its own tests."""
    rules = tuple(r for r in RULES if r.family != "blocking")
    part = Neighbourhood(one((1, 1, 1, 24), lambda g, x: conv(g, x, 72)), (0, 1))
    with Pool() as pool:
        found = Discoverer(Target.of("ethos-u85-256"), pool, rules).discover(part)
    assert found is not None and found.after < found.known / 3 and prove(part.graph, found.graph).verdict == PROVED
    tried = trials(found)
    assert {HOLDS, SPARED} <= {t.answer for t in tried}
    (tmp_path / "found.tosa").write_bytes(dumps(part.graph))
    (tmp_path / "found.py").write_text(module(found, "found", "a test", tried))
    report = examine(find(str(tmp_path / "found.py")), graphs=5)
    assert report.matches["found"] and not report.unsound
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", tmp_path / "found.py"]
    )
    assert done.returncode == 0


@pytest.mark.slow
def test_the_tool_looks_in_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    place = tmp_path / "g.tosa"
    place.write_bytes(dumps(one((1, 1, 4), lambda g, x: clamp(g, clamp(g, x, -9, 9), -5, 5))))
    (tmp_path / "out").mkdir()
    given = ["graph", str(place), "-t", "ethos-u55-128", "-o", str(tmp_path / "out")]
    main([*given, "--json"])
    assert json.loads(capsys.readouterr().out)["tried"] == 1
    for wrong in (["-t", "ethos-u99"], ["-o", str(place / "below")]):
        with pytest.raises(SystemExit) as e:
            main([*given, *wrong])
        assert e.value.code == 2


def test_a_family_is_left_out() -> None:
    gone = set(RULES) - set(without("matmul"))
    assert gone == {r for r in RULES if r.family == "matmul" and not r.analysis} and "matmul" in families()
    assert set(families()) <= planted().keys()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_small_run_of_the_study(tmp_path: Path) -> None:
    """A family that is left out is found again; a second run adds nothing."""
    (tmp_path / "tiny.0.ethos-u85-256.tosa").write_bytes(dumps(conv_graph()))
    for _ in range(2):
        main(["study", "--tosa", str(tmp_path), "--families", "matmul", "--out", str(tmp_path / "out")])
        lines = (tmp_path / "out/records.jsonl").read_text().splitlines()
        family, news = map(json.loads, lines)
        assert (family["part"], family["found"], family["as_cheap"], news["part"]) == ("blind", True, True, "news")
        assert family["after"] < family["without"]
