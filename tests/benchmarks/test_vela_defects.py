"""The installed Vela compiles the smallest graph of each defect as the table says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from benchmarks.study import TARGETS
from benchmarks.vela_defects import GRAPHS, NOT_RUN_ELSEWHERE, REFUSED_ELSEWHERE, equal_weights, is_wrong, verdict
from cost_models.op_count import OpCount
from docs.generate import PARTS
from eqsat.choice.choice import build
from eqsat.choice.writer import with_needed_copies
from eqsat.device.binary import compile_binary
from eqsat.egraph.encoding import saturate
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.proof import PROVED
from eqsat.proof.binary import prove_binary
from eqsat.target import Target
from eqsat.target.family import U55
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela import defects
from eqsat.vela.defects import DEFECTS, Copy, Defect, Guard, price_guards, remedies, violations
from eqsat.vela.patterns import Operator, Place

#: Those at whose start a record or a fact changes, and one before all of them.
VERSIONS = sorted({(5, 0), (5, 1), (5, 2), *(v for d in DEFECTS for v in (d.since, d.until) if v)})
CELLS = [(d, Target.of(t)) for d in DEFECTS for t in TARGETS]
REFUSED = [(d, t) for d, t in CELLS if d.name in REFUSED_ELSEWHERE and t.family.commands not in d.families]


of_each_target = pytest.mark.parametrize("name", TARGETS)


def test_every_defect_has_a_graph() -> None:
    assert sorted(d.name for d in DEFECTS) == sorted(GRAPHS)


@of_each_target
def test_what_vela_gets_wrong(name: str, worker: Worker) -> None:
    """By defect: what its record says, and what its binary is."""
    target, said, found = Target.of(name), dict[str, bool | None](), dict[str, bool | None]()
    for defect in (d for d, t in CELLS if t == target and (d, t) not in REFUSED):
        wrong = is_wrong(defect, target)
        said[defect.name] = not wrong if wrong or defect.name not in NOT_RUN_ELSEWHERE else None
        found[defect.name] = verdict(defect, target, worker).equal
    assert found == said


@pytest.mark.slow  # Vela uses up a stack of 512 MiB
def test_what_vela_does_not_take_for_others(worker: Worker) -> None:
    """Of each such defect one target."""
    assert REFUSED
    for defect, target in {d.name: (d, t) for d, t in REFUSED}.values():
        with pytest.raises(WorkerError, match="could not run on NPU|does not survive"):
            verdict(defect, target, worker)


def test_remedies_answer_for_the_versions_and_families_of_their_records() -> None:
    """No version but the installed one is needed: remedies are chosen by its number."""
    for defect in (d for d in DEFECTS if d.remedy):
        assert_remedied(defect)


def assert_remedied(defect: Defect) -> None:
    graph, remedy = GRAPHS[defect.name](), defect.remedy
    places = list(remedy.places(graph)) if remedy else []
    last = [Operator.of(graph, p[-1]) for p in places]
    assert places
    for target, vela in product(map(Target.of, TARGETS), VERSIONS):
        family, text = target.family, ".".join(map(str, vela))
        there = (
            family.commands in defect.families
            and (defect.since is None or defect.since <= vela)
            and (defect.until is None or vela < defect.until)
        )
        where = f"{target}, Vela {text}"
        if isinstance(remedy, Copy):
            written, _ = with_needed_copies(graph, {}, remedies(Copy, family, text))
            assert list(remedy.places(written)) == ([] if there else places), where
            continue
        assert isinstance(remedy, Guard)
        guards = remedies(Guard, family, text)
        assert violations(graph, family, text).count(remedy.words) == (len(places) if there else 0), where
        if remedy.operator:
            assert [price_guards(1.0, o, guards) for o in last] == [remedy.factor if there else 1.0], where


def test_a_guard_names_equal_weights_with_other_biases() -> None:
    assert "other biases" in violations(equal_weights(), U55)[0]
    g = equal_weights()
    last = next(n for n in reversed(range(len(g.nodes))) if g.nodes[n].op == "rescale")
    attrs = tuple((k, (35,) if k == "shift" else v) for k, v in g.nodes[last].attrs)
    g.nodes[last] = replace(g.nodes[last], attrs=attrs)
    assert violations(g, U55) == []


def is_reverse(o: Operator) -> bool:
    return o.op == "reverse"


def reverses(graph: TensorGraph) -> Iterator[Place]:
    return ((n,) for n in graph.live() if is_reverse(Operator.of(graph, n)))


def reversed_sum_of_a_slice() -> TensorGraph:
    """A REVERSE of what `sum_of_a_slice` has.

    The binary leaves the order as it is.
    """
    g = GRAPHS["sum_of_a_slice"]()
    g.outputs = [g.add("reverse", g.outputs, axis=1)]
    return g


@pytest.mark.parametrize(("vela", "is_new"), [("5.1.0", False), ("5.2.0", False), ("99.0.0", True)])
def test_guards_copies_prices_and_the_page_follow_the_table(
    vela: str, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up version 99.0 sums slices rightly, and reverses nothing."""
    guard = Guard("a REVERSE (Vela leaves it out)", reverses, is_reverse)
    new = Defect("reversed_sum_of_a_slice", (1,), since=(99, 0), remedy=guard)
    mended = [replace(d, until=(99, 0)) if d.name == "sum_of_a_slice" else d for d in DEFECTS]
    monkeypatch.setattr(defects, "DEFECTS", (*mended, new))
    monkeypatch.setattr(defects, "version", lambda: vela)
    monkeypatch.setitem(GRAPHS, new.name, reversed_sum_of_a_slice)
    graph = reversed_sum_of_a_slice()
    assert (violations(graph, U55) == [guard.words]) == is_new

    choices = build(saturate(graph, ()), OpCount(Target.of("ethos-u55-128")))
    assert [c.usable for c in choices.candidates if c.enode.op == "reverse"] == [not is_new]
    written, _ = choices.tensor_graph({c: choices.graph.class_nodes(c)[0] for c in range(len(choices.classes))})
    assert ("depthwise_conv2d" in written.op_counts()) == (not is_new)

    rows = {line.split("`")[1]: line for line in PARTS["defects of Vela"]().splitlines()[2:]}
    assert rows["sum_of_a_slice"].endswith("| U55, U65, U85 | before 99.0 | a copy |")
    assert rows[new.name].endswith("order as it is. | U55, U65 | from 99.0 | forbidden |")


@pytest.mark.slow
@of_each_target
def test_no_binary_that_is_wrong_is_proved(name: str, worker: Worker) -> None:
    """Samples on the functional model say which these are."""
    target, proved = Target.of(name), 0
    for defect in (d for d, t in CELLS if t == target and (d, t) not in REFUSED):
        graph = GRAPHS[defect.name]()
        try:
            binary = compile_binary(dumps(graph), target, worker)
        except WorkerError:  # Vela makes none
            continue
        if prove_binary(graph, binary).verdict == PROVED:
            proved += 1
            assert verdict(defect, target, worker).equal, defect.name
    assert proved
