"""Discovery: what is read off a graph is what it computes, what is cheaper is found, proved and written as a rule."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eqsat.checking.user_rules import examine, find
from eqsat.cli.app import app
from eqsat.discover.affine import NoRows, rows
from eqsat.discover.copies import Selection, Table
from eqsat.discover.equality import Equality, form_of
from eqsat.discover.find import Discoverer
from eqsat.discover.near_misses import near_misses, resized
from eqsat.discover.neighbourhoods import Neighbourhood, neighbourhoods, replaced
from eqsat.discover.readings import moved, readings
from eqsat.discover.recipes import Recipe, Source, Window, begun, followed, windows
from eqsat.discover.terms import Rearranged, rearranged
from eqsat.discover.text import HOLDS, SPARED, module, trials
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, prove
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import add, clamp, conv, finish


def one(shape: tuple[int, ...], build: object, dtype: str = "INT8") -> TensorGraph:
    g = TensorGraph()
    return finish(g, build(g, g.add_input("x", shape, dtype)))  # type: ignore[operator]


LAYER = one((1, 6, 8, 4), lambda g, x: conv(g, x, 4, 3))
GRAPHS = {
    "conv": LAYER,
    "place": one((1, 1, 1, 12), lambda g, x: conv(g, x, 7)),
    "nchw": one((1, 4, 6, 8), lambda g, x: conv(g, g.add("transpose", [x], perms=(0, 2, 3, 1)), 4, 3, stride=2)),
    "average": one(
        (1, 4, 4, 3), lambda g, x: g.add_with("avg_pool2d", [x], makers.avg_pool((2, 2), in_zp=5, out_zp=-2))
    ),
    "largest": one((1, 4, 4, 3), lambda g, x: g.add_with("reduce_max", [x], makers.extremum(1))),
    "padded": one(
        (1, 4, 5, 3), lambda g, x: conv(g, g.add_with("pad", [x], makers.pad((0, 0, 1, 1, 1, 1, 0, 0), -3)), 4)
    ),
    "heads": one((1, 4, 4, 3), lambda g, x: g.add("concat", [conv(g, x, 2, 3), conv(g, x, 3, 3, seed=1)], axis=3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_windows_are_equal_to_what_they_are_read_off(name: str) -> None:
    source = Source(GRAPHS[name])
    made = [m for r in windows(GRAPHS[name]) if (m := followed(r, source)) is not None]
    assert made
    proofs = [prove(GRAPHS[name], m) for m in made]
    assert sum(p.verdict == PROVED for p in proofs) >= 3
    assert all(p.verdict == PROVED or p.counterexample for p in proofs)  # read off in five places, they may differ


def test_a_sum_of_two_convolutions_is_one() -> None:
    """The concatenation of both inputs by weights beside each other, where nothing is rounded between."""
    g = TensorGraph()
    sums = [
        g.add_with(
            "conv2d",
            [
                g.add_input(name, (1, 3, 3, 2), "INT8"),
                g.add_const(np.full((2, 1, 1, 2), k), "INT8"),
                g.add_const(np.array([k]), "INT32"),
            ],
            makers.conv("INT8"),
        )
        for k, name in ((3, "x"), (5, "y"))
    ]
    finish(g, g.add_with("rescale", [g.add("add", sums)], makers.rescale("INT8", 1 << 30, 36)))
    made = followed(Window("conv2d", ("plain", 1), ("plain", 1)), Source(g))
    assert made is not None and made.op_counts() == {"concat": 1, "conv2d": 1, "rescale": 1}
    assert prove(g, made).verdict == PROVED


def test_what_is_no_sum_is_not_read_off() -> None:
    twice = one((1, 4, 4, 3), lambda g, x: conv(g, conv(g, x, 3), 3))  # it rounds between
    with pytest.raises(NoRows):
        rows(twice, np.arange(3))
    assert followed(Window("conv2d", ("plain", 1), ("plain", 1)), Source(twice)) is None


def test_selection_and_table() -> None:
    def chain(g: TensorGraph, x: int) -> int:
        y = g.add("slice", [g.add("transpose", [x], perms=(0, 2, 1))], start=(0, 1, 0), size=(1, 4, 3))
        return g.add(
            "slice", [g.add("transpose", [clamp(g, y, -5, 90)], perms=(0, 2, 1))], start=(0, 1, 0), size=(1, 2, 4)
        )

    graph = one((1, 3, 6), chain)
    made = followed(Selection(), Source(graph))
    assert made is not None and made.op_counts() == {"clamp": 1, "slice": 1} and prove(graph, made).verdict == PROVED
    pointwise = one((2, 5), lambda g, x: clamp(g, g.add_with("table", [x], makers.table(range(-128, 128))), -9, 9))
    table = followed(Table(), Source(pointwise))
    assert table is not None and table.op_counts() == {"clamp": 1} and prove(pointwise, table).verdict == PROVED
    assert followed(Table(), Source(graph)) is None


def test_terms_of_the_own_operators() -> None:
    def turned_sum(g: TensorGraph, x: int) -> int:
        a, b = (g.add("transpose", [v], perms=(0, 2, 1)) for v in (x, g.add_input("y", (1, 3, 5), "INT8")))
        return g.add("transpose", [add(g, a, b)], perms=(0, 2, 1))

    graph = one((1, 3, 5), turned_sum)
    found = [m for r in rearranged(graph, 20.0) if (m := followed(r, Source(graph))) is not None]
    assert any("transpose" not in m.op_counts() for m in found)
    assert all(prove(graph, m).verdict == PROVED for m in found)
    assert followed(Rearranged(("op", 99, -1, ("input", 0))), Source(graph)) is None


def test_neighbourhoods_have_one_result_and_quantized_borders() -> None:
    graph = one((1, 4, 4, 8), lambda g, x: add(g, conv(g, x, 8), conv(g, x, 8, 3)))
    found = neighbourhoods(graph, 2, 4)
    assert {n.operators for n in found} >= {"conv2d rescale", "rescale rescale add rescale"}
    for part in found:
        types = part.graph.signature()
        assert len(types[1]) == 1 and {t.dtype for side in types for t in side} == {"INT8"}
    two = one((1, 4, 4, 8), lambda g, x: conv(g, conv(g, x, 8), 8))
    assert next(n for n in neighbourhoods(two, 2, 2) if n.operators == "conv2d rescale").places == 2


def test_a_neighbourhood_is_replaced_in_its_graph() -> None:
    graph = one((1, 4, 4, 8), lambda g, x: add(g, conv(g, x, 8), conv(g, x, 8, 3)))
    for part in neighbourhoods(graph, 2, 4):
        assert prove(graph, replaced(graph, part, part.graph)).verdict == PROVED
    part = next(n for n in neighbourhoods(graph, 2, 2) if n.operators == "conv2d rescale")
    made = followed(Window("conv2d", ("row", 1), ("row", 1)), Source(part.graph))
    assert made is not None and prove(graph, replaced(graph, part, made)).verdict == PROVED


def test_readings_are_bijections() -> None:
    for _, move in readings((1, 4, 6, 8)):
        assert sorted(move.indices().reshape(-1)) == list(range(192))
        g = TensorGraph()
        finish(g, moved(g, g.add_input("x", (1, 4, 6, 8), "INT8"), move))
        x = np.arange(192, dtype=np.uint8).astype(np.int8).reshape(1, 4, 6, 8)
        np.testing.assert_array_equal(g.evaluate([x])[0], move.apply(x))


def test_near_misses_differ_in_one_thing() -> None:
    wider = resized(LAYER, 8, 9)
    assert wider is not None and wider.signature()[0][0].shape == (1, 6, 9, 4)
    changes = dict(near_misses(LAYER))
    assert {"in_zp of conv2d + 1", "stride of conv2d 2", "8 -> 16"} <= changes.keys()
    assert all(dumps(g) != dumps(LAYER) for g in changes.values())


def test_an_instance_must_be_proved() -> None:
    """A recipe that gives something else makes no instance."""

    class Wrong:
        text = "the input as it is"

        def follow(self, source: Source) -> TensorGraph:
            new = begun(source.graph)
            new.outputs.append(clamp(new, new.inputs[0], -128, 126))
            return new

    graph = one((1, 4), lambda g, x: clamp(g, x, -128, 100))
    wrong: Recipe = Wrong()
    made = followed(wrong, Source(graph))
    assert made is not None
    form = form_of(graph)
    assert Equality.of(graph, made, wrong).instance(form.attributes, [graph.type(0)], []) is None
    right = followed(Table(), Source(graph))
    assert right is not None
    assert Equality.of(graph, right, Table()).instance(form.attributes, [graph.type(0)], []) == (form.attributes[0],)


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
def test_the_command(tmp_path: Path) -> None:
    place = tmp_path / "g.tosa"
    place.write_bytes(dumps(one((1, 1, 4), lambda g, x: clamp(g, clamp(g, x, -9, 9), -5, 5))))
    (tmp_path / "out").mkdir()
    given = ["discover", str(place), "-t", "ethos-u55-128", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*given, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["tried"] == 1
    for wrong in (["-t", "ethos-u99"], ["-o", str(place / "below")]):
        assert CliRunner().invoke(app, [*given, *wrong]).exit_code == 2
