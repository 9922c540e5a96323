"""Discovery: what is cheaper is found, proved and written as a rule that passes its own test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.discovery import equality
from benchmarks.discovery.__main__ import main
from benchmarks.discovery.affine import NoRows, rows
from benchmarks.discovery.equality import Equality, form_of
from benchmarks.discovery.find import Discoverer
from benchmarks.discovery.neighbourhoods import Neighbourhood, neighbourhoods, replaced
from benchmarks.discovery.recipes import Source, Window, followed, windows
from benchmarks.discovery.text import module
from eqsat.checking.user_rules import examine, find
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, prove
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import add, clamp, conv, conv_graph, finish

PLAIN = Window("conv2d", ("plain", 1), ("plain", 1))


def one(shape: tuple[int, ...], build: object) -> TensorGraph:
    g = TensorGraph()
    return finish(g, build(g, g.add_input("x", shape, "INT8")))  # type: ignore[operator]


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
    assert followed(PLAIN, Source(twice)) is None


def test_a_neighbourhood_is_replaced_in_its_graph() -> None:
    graph = one((1, 4, 4, 8), lambda g, x: add(g, conv(g, x, 8), conv(g, x, 8, 3)))
    for part in neighbourhoods(graph, 2, 4):
        assert prove(graph, replaced(graph, part, part.graph)).verdict == PROVED


def test_an_instance_must_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that gives something else makes no instance."""
    graph, wrong = one((1, 4), lambda g, x: clamp(g, x, -128, 100)), one((1, 4), lambda g, x: clamp(g, x, -128, 126))
    form = form_of(graph)
    for made in (graph, wrong):
        monkeypatch.setattr(equality, "followed", lambda recipe, source, made=made: made)
        instance = Equality.of(graph, made, PLAIN).instance(form.attributes, [graph.type(0)], [])
        assert (instance is not None) == (made is graph)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_a_graph_to_a_rule(tmp_path: Path) -> None:
    """Without the family `blocking`, what it knows of one place is found again, and its rule fires and is sound."""
    rules = tuple(r for r in RULES if r.family != "blocking")
    part = Neighbourhood(one((1, 1, 1, 24), lambda g, x: conv(g, x, 72)), (0, 1))
    with Pool() as pool:
        found = Discoverer(Target.of("ethos-u85-256"), pool, rules).discover(part)
    assert found is not None and found.after < found.known / 3 and prove(part.graph, found.graph).verdict == PROVED
    (tmp_path / "found.tosa").write_bytes(dumps(part.graph))
    (tmp_path / "found.py").write_text(module(found, "found", "a test"))
    report = examine(find(str(tmp_path / "found.py")), graphs=5)
    assert report.matches["found"] and not report.unsound


@pytest.mark.slow
def test_the_tool_looks_in_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    place = tmp_path / "g.tosa"
    place.write_bytes(dumps(conv_graph()))
    (tmp_path / "out").mkdir()
    given = ["graph", str(place), "-t", "ethos-u55-128", "-o", str(tmp_path / "out")]
    main([*given, "--json"])
    assert json.loads(capsys.readouterr().out)["tried"] > 0
    for wrong in (["-t", "ethos-u99"], ["-o", str(place / "below")]):
        with pytest.raises(SystemExit) as e:
            main([*given, *wrong])
        assert e.value.code == 2
