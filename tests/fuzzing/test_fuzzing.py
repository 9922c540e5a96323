"""Damaged files are read or refused with a named error; the long run is `python -m tests.fuzzing`."""

from __future__ import annotations

import random
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tosa import TosaError, dumps, loads
from tests.fuzzing import corpus
from tests.fuzzing.formats import FORMATS
from tests.fuzzing.mutate import MUTATORS, mutated
from tests.fuzzing.reading import run
from tests.graphs import opaque

pytestmark = pytest.mark.slow


def fuzzed(name: str, inputs: int, tmp_path: Path, seed: int = 0):
    (tmp_path / "corpus").mkdir()
    FORMATS[name].prepare(tmp_path / "corpus")
    return run(name, seed, inputs, tmp_path)


def test_the_corpus_has_every_operator() -> None:
    assert corpus.uncovered() == set()


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("tosa", 2000),
        ("search", 40),
        ("choice-graph", 300),
        ("prices", 100),
        ("records", 100),
        ("reports", 25),
        ("outlines", 100),
        ("raw", 60),
        ("payload", 60),
        ("certificate", 200),
        ("inputs", 100),
        ("answers", 200),
        ("defaults", 200),
        ("weights", 500),
    ],
)
def test_damaged_files_give_named_errors(name: str, inputs: int, tmp_path: Path) -> None:
    tally = fuzzed(name, inputs, tmp_path)
    assert tally.findings == [] and tally.inputs == inputs == sum(tally.outcomes.values())
    assert any(k.startswith("accepted") for k in tally.outcomes) and len(tally.outcomes) > 1


def test_every_mutator_is_used_and_changes_files() -> None:
    files = [dumps(g) for g in corpus.graphs()]
    for name in MUTATORS:
        made = [mutated(random.Random(i), files, (name,))[0] for i in range(20)]
        assert any(m not in files for m in made), name


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        ("while True: pass", "computing"),
        ("signal.raise_signal(11)", "signal 11"),
        ("1 // 0", "ZeroDivision"),
        ("bytearray(1 << 31)", "MemoryError"),
    ],
)
def test_a_crash_or_a_hang_is_seen(harm: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of the watched process is broken on input 3; the inputs behind it are still read."""
    (tmp_path / "sitecustomize.py").write_text(f"""
import random, signal, sys
import importlib.abc, importlib.machinery
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "tests.fuzzing.formats":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        original = spec.loader.exec_module
        def exec_module(module):
            original(module)
            from dataclasses import replace
            def damage(r, corpus):
                return b"bad" if r.random() == random.Random("records:0:3").random() else corpus[0], "bits"
            def read(data, place):
                if data == b"bad":
                    {harm}
                return "accepted"
            module.FORMATS["records"] = replace(module.FORMATS["records"], damage=damage, read=read)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Broken())
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("tests.fuzzing.reading.DEADLINE", 0.5)
    tally = fuzzed("records", 6, tmp_path)
    assert [f["number"] for f in tally.findings] == [3] and word in tally.findings[0]["finding"]
    assert tally.inputs == 6 and tally.outcomes == {"accepted": 5, "FINDING": 1}


# ---- what fuzzing has found -----------------------------------------------------------------------


def edited(g: TensorGraph, op: str, **new: object) -> bytes:
    for n, node in enumerate(g.nodes):
        if node.op == op:
            g.nodes[n] = Node(
                node.op, node.inputs, tuple((k, new.get(k, v)) for k, v in node.attrs), node.shape, node.dtype
            )
    return dumps(g)


@pytest.mark.parametrize("stride", [(0, 1), (1, 0), (-1, 1)])
@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d", "transpose_conv2d", "max_pool2d", "avg_pool2d"])
def test_strides_below_one_are_refused(op: str, stride: tuple[int, int]) -> None:
    with pytest.raises(TosaError, match="strides?.* (0|-1)"):
        loads(edited(corpus.products(), op, stride=stride))


def test_a_folded_constant_of_another_dtype_is_carried_not_cut() -> None:
    """A zero point of INT32 would be written back in INT8, as another number."""
    g = TensorGraph()
    x = g.add_input("x", (1, 4), "INT8")
    zero = g.add_const(np.array([1 << 20]), "INT32")
    corpus.finish(g, opaque(g, "NEGATE", [x, zero, zero], [g.type(x)]))
    (n,) = [n for n in loads(dumps(g)).nodes if n.op not in ("input", "const")]
    assert n.op == "opaque" and n.attr("tosa") == "NEGATE"


def test_small_files_that_stand_for_endless_graphs_are_refused() -> None:
    """One long name for the result, the operands and the output of every operator: parts of a flatbuffer may be
    shared."""
    g = TensorGraph()
    x = g.add_input("x" * 60000, (1, 2), "INT8")
    corpus.finish(g, g.add("concat", (x,) * 1000, axis=0))
    shared: dict[str, int] = {}

    class SharingBuilder(flatbuffers.Builder):
        def CreateString(self, s, *args):
            if s not in shared:
                shared[s] = super().CreateString(s, *args)
            return shared[s]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eqsat.tosa.flatbuffer.flatbuffers.Builder", SharingBuilder)
        small = dumps(g)
    assert len(small) < 70_000
    with pytest.raises(TosaError, match="shares its parts"):
        loads(small)


def test_many_inputs_and_equal_outputs_are_read_and_written() -> None:
    g = TensorGraph()
    for i in range(3000):
        g.add_input(f"i{i}", (1,), "INT8")
    corpus.finish(g, *[0] * 3000)
    g.output_names = ["i0"] * 3000
    again = loads(dumps(g))
    assert len(again.inputs) == 3000 and len(set(again.output_names)) == 3000
    assert loads(dumps(again)).signature() == g.signature()


def test_errors_stay_short() -> None:
    g = TensorGraph()
    g.add_input("x" * 10_000, (1,), "INT8")
    with pytest.raises(TosaError) as e:
        loads(dumps(corpus.finish(g, g._put(Node("identity", (0,), (), (2,), "INT8")))))
    assert len(str(e.value)) < 700
