"""A run comes back as it was saved, without ExecuTorch; what is missing, changed or foreign is a named error."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from eqsat import runs
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from eqsat.report import graphs
from eqsat.runs.codec import load_outline, outline
from eqsat.runs.saved import MANIFEST, ArchiveError
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tosa import dumps
from tests.command import python
from tests.graphs import channel_shuffle, conv_graph, transposed_relus
from tests.planted import RETYPED


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    options, given = Options(effort=1, cache=tmp_path_factory.mktemp("prices") / "p"), dumps(channel_shuffle())
    return optimize_tosa(given, "ethos-u85-256", stock=given, options=options)


@pytest.fixture
def saved(result: Result, tmp_path: Path) -> Path:
    runs.save(result, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_comes_back_as_it_was(result: Result, saved: Path) -> None:
    run, loaded = result.run, runs.load(saved)
    candidates = zip(loaded.choices.candidates, run.choices.candidates, strict=True)
    for one, other, names in (
        (loaded, run, ("choice", "rules", "target", "chosen")),
        (loaded.choices.frozen, run.choices.frozen, ("classes", "types", "handle", "source")),
        (loaded.choices.graph, run.choices.graph, ("pair_costs",)),
        *((a, b, ("enode", "cls", "operands", "steps", "cycles")) for a, b in candidates),
    ):
        assert {n: getattr(one, n) for n in names} == {n: getattr(other, n) for n in names}
    assert (loaded.choices.graph.cost == run.choices.graph.cost).all()
    points = {f"point-{i}": p.tosa for i, p in enumerate(result.points)}
    given = {"explicit": result.explicit, "chosen": result.tosa, "stock": dumps(channel_shuffle())}
    assert points and loaded.graphs == given | points
    assert loaded.cost() == run.cost() and loaded.result["cycles"] == result.cycles
    if result.chosen == "eqsat":
        assert dumps(loaded.tensor_graph()) == result.tosa


def test_experiments_need_no_executorch(saved: Path) -> None:
    """Extraction and pricing in a process where torch and executorch cannot be imported."""
    script = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchao", "executorch"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from eqsat import runs
from eqsat.tosa import dumps, loads
run = runs.load({str(saved)!r})
found = run.extract("asp")
assert found.cost <= run.cost() + 1e-6, (found.cost, run.cost())
other = run.price("op_count")
assert other.extract("dag_greedy").cost != found.cost
loads(dumps(run.tensor_graph(found.choice)))
from eqsat.explain import explain
print(len(explain(run).ops))
"""
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3


def files_of(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir())


def test_every_damaged_file_is_named(saved: Path, tmp_path: Path) -> None:
    assert len(files_of(saved)) >= 9  # one of them a point of the Pareto set
    for name in files_of(saved):
        original = (saved / name).read_bytes()
        for bad in (original[: len(original) // 2], b"", original[:-1] + bytes([original[-1] ^ 1])):
            (saved / name).write_bytes(bad)
            with pytest.raises(ArchiveError, match=name.replace(".", r"\.")):
                runs.load(saved)
        (saved / name).unlink()
        with pytest.raises(ArchiveError, match=name.replace(".", r"\.")):
            runs.load(saved)
        (saved / name).write_bytes(original)
    runs.load(saved)


def reseal(place: Path, change) -> None:
    """Rewrites a manifest with a valid seal, as someone who knows the format would."""
    content = json.loads((place / MANIFEST).read_text())
    del content["seal"]
    change(content)
    for name in content["files"]:
        data = (place / name).read_bytes()
        content["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["seal"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (place / MANIFEST).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(version=99), "version 99"),
        (lambda c: c.update(format="other"), "'other'"),
        (lambda c: c["info"].pop("choice"), "does not fit together"),
        (lambda c: c["info"].update(choice=[[0, 10**6]]), "does not fit together"),
        (lambda c: c["info"].update(choice=[]), None),
    ],
)
def test_a_sealed_manifest_is_still_checked(saved: Path, change, words: str | None) -> None:
    reseal(saved, change)
    if words is None:
        assert runs.load(saved).choice == {}
    else:
        with pytest.raises(ArchiveError, match=words):
            runs.load(saved)


def test_sealed_nonsense_and_pickles_are_refused(saved: Path) -> None:
    egraph, pickled = json.loads(gzip.decompress((saved / "egraph.json.gz").read_bytes())), io.BytesIO()
    egraph["choices"]["enodes"][0] = [10**6, 0]
    np.savez(pickled, a=np.array([{"code": 1}], dtype=object))
    for name, data, words in (
        ("egraph.json.gz", gzip.compress(json.dumps(egraph).encode()), "does not fit together"),
        ("constants.npz", pickled.getvalue(), "an array of objects"),
    ):
        (saved / name).write_bytes(data)
        reseal(saved, lambda c: None)
        with pytest.raises(ArchiveError, match=words):
            runs.load(saved)


def test_saving_replaces_a_run_and_nothing_else(result: Result, saved: Path, tmp_path: Path) -> None:
    before = files_of(saved)
    runs.save(result, saved)
    assert files_of(saved) == before
    other = tmp_path / "precious"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="precious exists"):
        runs.save(result, other)
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="run has notes.txt, which is no part of the saved run"):
        runs.save(result, saved)
    with pytest.raises(InputError, match="does not exist"):
        runs.save(result, tmp_path / "no" / "such" / "place")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["precious", "run"]


def test_no_alternatives_no_run(tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "p", rules=(RETYPED,))
    result = optimize_tosa(dumps(channel_shuffle()), "ethos-u85-256", options=options)
    with pytest.raises(InputError, match="egglog"):
        runs.save(result, tmp_path / "run")


def test_an_outline_draws_the_same_graph() -> None:
    for make in (transposed_relus, channel_shuffle, conv_graph):
        g = make()
        again = load_outline(json.loads(json.dumps(outline(g))))
        assert graphs.svg(again, set(), "") == graphs.svg(g, set(), "") and again.op_counts() == g.op_counts()
        assert graphs.marks(g, again) == (set(), set())


def test_another_constant_is_another_node_and_an_outline_has_no_elements() -> None:
    first, second = conv_graph(), conv_graph()
    n = next(n for n in second.live() if second.nodes[n].op == "const")
    kept = outline(second)
    (pair,) = kept["nodes"][n][2]
    pair[1]["const"] = "0" * 32
    gone, new = graphs.marks(first, load_outline(kept))
    assert gone and new and len(gone) == len(new)
    consts = [n for n in load_outline(kept).nodes if n.op == "const"]
    assert consts and all(n.attr("value").data.size == 0 for n in consts)
