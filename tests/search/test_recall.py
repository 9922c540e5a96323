"""Answers of earlier searches: taken again where nothing changed, compared where something did, and never trusted."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.choice import respelling
from eqsat.choice.respelling import alike, signer
from eqsat.egraph.encoding import ENode, saturate
from eqsat.ground.packed import pack_json, unpack_json
from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.recall import AnswerStore, KnownAnswer
from eqsat.store.store import ANSWERS, Store
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.term import Term, graph, inputs, outputs

TARGET = "ethos-u85-256"
QUICK = Options(effort=1)
IMAGE = "x:INT8[1,16,16,16]"


def between(x: Term, seed: int = 1) -> Term:
    """A CLAMP between two transposes that are of no use."""
    return x.layer(16, seed=seed).nchw().clamp(-128, 126).nhwc().layer(8, seed=seed + 1)


def around(seed: int = 1) -> TensorGraph:
    return graph(IMAGE, lambda x: between(x, seed))


def answered(store: AnswerStore | None, given: TensorGraph | None = None, options: Options = QUICK) -> Result:
    tosa = dumps(given or around())
    return optimize_tosa(tosa, TARGET, stock=tosa, options=options, with_settings=True, store=store)


@pytest.fixture
def store(tmp_path: Path) -> AnswerStore:
    return AnswerStore(tmp_path / "store.sqlite")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder of a store with the answer of the first search, and that answer."""
    place = tmp_path_factory.mktemp("known")
    return place, answered(AnswerStore(place / "store.sqlite"))


@pytest.fixture
def first(known: tuple[Path, Result]) -> Result:
    return known[1]


@pytest.fixture
def filled(known: tuple[Path, Result], tmp_path: Path) -> AnswerStore:
    """A store with the answer of the first search, for one test to change."""
    return AnswerStore(shutil.copytree(known[0], tmp_path / "filled") / "store.sqlite")


@pytest.fixture(scope="module")
def searched() -> Result:
    """What is found without a store for the same architecture with other weights."""
    return answered(None, around(seed=5))


def entries(store: AnswerStore, choices: bool = False) -> dict[str, KnownAnswer]:
    """Answers by name, or choices for graphs of the same structure."""
    with closing(Store(store.place)) as kept:
        every = {name: KnownAnswer.unpack(raw) for name, raw in kept.family(ANSWERS, "").items()}
    return {name: answer for name, answer in every.items() if bool(answer.choice) == choices}


def forge(store: AnswerStore, name: str, answer: KnownAnswer) -> None:
    """Puts an entry in the place of another, with a checksum that is right."""
    with closing(Store(store.place)) as kept:
        kept.put(ANSWERS, {name: answer.pack()})


@pytest.mark.slow
def test_the_same_search_again_gives_its_answer(first: Result, filled: AnswerStore) -> None:
    again = answered(filled)
    assert first.calibrated < first.stock_calibrated and not first.remembered
    assert again.recalled in str(again) and again.recalled.startswith("not searched again") and not first.recalled
    assert again.remembered and again.searched and again.run is None and again.extractions == []
    for name in ("tosa", "chosen", "cycles", "calibrated", "footprint", "settings", "verified", "proved", "warnings"):
        assert getattr(again, name) == getattr(first, name), name
    assert again.binary_verified and again.binary_proved and again.record()["stop"] == "remembered"
    assert not answered(None).remembered and len(entries(filled)) == 1


def test_that_nothing_was_gained_is_remembered_too(store: AnswerStore) -> None:
    given = graph("x:INT8[1,8,8,16]", lambda x: x.layer(16))
    first, again = answered(store, given), answered(store, given)
    assert first.chosen == again.chosen == "explicit" and again.remembered
    assert first.kept == "nothing faster was found, and nothing proves that there is none: the given graph is kept"
    assert again.kept == "nothing faster was found: the given graph is kept", "it has no gap"


@pytest.mark.slow
def test_another_search_of_the_graph_starts_from_what_is_known(first: Result, filled: AnswerStore) -> None:
    without_rules = answered(filled, options=Options(effort=0))
    assert not without_rules.remembered and without_rules.calibrated == first.calibrated
    assert answered(None, options=Options(effort=0)).calibrated > first.calibrated
    other = answered(filled, graph(IMAGE, lambda x: between(x, 5).layer(4)))
    assert not other.remembered and not other.respelled and len(entries(filled)) == 3


@pytest.mark.slow
def test_damage_costs_the_entry_alone(first: Result, filled: AnswerStore) -> None:
    (name,) = entries(filled)
    with closing(sqlite3.connect(str(filled.place))) as db, db:
        db.execute("update entries set value = substr(value, 1, length(value) - 1) where key = ?", (f"answer:{name}",))
    again = answered(filled)
    assert not again.remembered and again.respelled and again.tosa == first.tosa and list(entries(filled)) == [name]


@pytest.mark.slow
def test_other_weights_take_the_known_choice(first: Result, filled: AnswerStore, searched: Result) -> None:
    """As the same architecture has them after another training."""
    other = around(seed=5)
    result = answered(filled, other)
    assert result.respelled and not result.remembered and result.searched
    assert result.run is None and not result.extractions
    assert result.verified and result.proved and result.binary_verified and result.warnings == []
    assert result.calibrated == searched.calibrated and result.tosa == searched.tosa != first.tosa
    assert "with other constants" in result.recalled and result.recalled in str(result)
    assert len(entries(filled)) == 2 and answered(filled, other).remembered


@pytest.mark.slow
def test_other_weights_may_be_equal_where_the_known_ones_differ(store: AnswerStore) -> None:
    """Equal constants are one class of the e-graph, so that the e-graphs differ."""

    def sums(first: int, second: int) -> TensorGraph:
        numbers = np.arange(16)
        (x,) = inputs(IMAGE)
        flat = x.const((numbers + second).reshape(1, 16, 1, 1))
        x = x.layer(16).plus(x.const((numbers + first).reshape(1, 1, 1, 16)))
        return outputs(x.nchw().clamp(-128, 126).nhwc().plus(flat.reshape(1, 1, 1, 16)))

    known, other = sums(5, 6), sums(1, 1)
    e_graphs = [saturate(g, QUICK.identities(Target.of(TARGET))) for g in (known, other)]
    assert len({len(f.classes) for f in e_graphs}) == 2
    answered(store, known)
    result, searched = answered(store, other), answered(None, other)
    assert result.respelled and result.proved and result.calibrated == searched.calibrated < result.stock_calibrated


@pytest.mark.slow
@pytest.mark.parametrize(("cycles", "before", "taken"), [(1, 2, True), (0.5, 0.5, True), (0.5, 0.75, False)])
def test_a_choice_that_gains_less_than_it_did_is_searched_for(
    cycles: float, before: float, taken: bool, filled: AnswerStore
) -> None:
    """It gains as much if it takes as many cycles, or as large a share of those before."""
    ((name, known),) = entries(filled, choices=True).items()
    forge(filled, name, replace(known, cycles=int(known.cycles * cycles), before=int(known.before * before)))
    result = answered(filled, around(seed=5))
    assert result.respelled == taken and result.verified and result.calibrated < result.stock_calibrated


@pytest.mark.slow
@pytest.mark.parametrize("change", ["", "5", '{"rows": {}, "outputs": []}', "operators", "operands", "movements"])
def test_a_forged_choice_changes_no_answer(change: str, filled: AnswerStore, searched: Result) -> None:
    ((name, known),) = entries(filled, choices=True).items()
    data = json.loads(known.choice)
    for row in data["rows"].values():
        if change == "operators":
            row[0] += "0"
        elif change == "operands":
            row[3] = [-1] * len(row[3])
        elif change == "movements":
            row[2] = [["transpose", {"perms": [0, 2, 1, 3]}]]
    forge(filled, name, replace(known, choice=json.dumps(data) if change[:1].isalpha() else change))
    result = answered(filled, around(seed=5))
    assert not result.respelled and result.verified and result.tosa == searched.tosa


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["another graph", "no graph", "other cycles", "no such settings", "another accelerator"]
)
def test_a_forged_entry_changes_no_answer(kind: str, first: Result, filled: AnswerStore) -> None:
    ((name, real),) = entries(filled).items()
    forged = {
        "another graph": {"tosa": dumps(around(seed=5))},
        "no graph": {"tosa": b"no graph"},
        "other cycles": {"cycles": real.cycles // 2},
        "no such settings": {"settings": ("--no-such-flag",)},
        "another accelerator": {"settings": ("--accelerator-config=ethos-u85-2048",)},
    }
    forge(filled, name, replace(real, **forged[kind]))
    again = answered(filled)
    assert not again.remembered and again.tosa == first.tosa and again.verified and again.calibrated == first.calibrated


def test_a_forged_choice_that_reads_itself_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is a move of a value that is a move of it."""
    target = Target.of(TARGET)
    frozen = saturate(graph(IMAGE, lambda x: x.nchw().clamp(-128, 126).nhwc()), QUICK.identities(target))
    signature, circles = signer(frozen), list[CycleError]()

    def row(e: ENode) -> list[Any]:
        own = signature(e)
        rank = [id(other) for other in alike(frozen.classes[e.cls], own, signature)].index(id(e))
        return [own, rank, [["transpose", {"perms": [0, 3, 1, 2]}]] if e.move else None, e.children]

    class Sorter(TopologicalSorter[int]):
        def prepare(self) -> None:
            try:
                super().prepare()
            except CycleError as e:
                circles.append(e)
                raise

    monkeypatch.setattr(respelling, "TopologicalSorter", Sorter)
    output = frozen.handle[frozen.source.outputs[0]]
    moves = {(e.cls, e.children[0]): e for nodes in frozen.classes for e in nodes if e.move}
    inner = next(b for a, b in moves if a == output and (b, a) in moves)
    rows = {output: row(moves[output, inner]), inner: row(moves[inner, output])}
    forged = json.dumps({"rows": rows, "outputs": [output], "shapes": {}})
    assert respelling.respell(forged, frozen, target.family) is None and circles


def test_a_place_that_cannot_be_used_costs_what_would_be_remembered(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("a file")
    result = answered(AnswerStore(tmp_path / "place"))
    assert result.calibrated < result.stock_calibrated and (tmp_path / "place").read_text() == "a file"
    assert any("prices are measured anew" in w and "place" in w for w in result.warnings)


@pytest.mark.parametrize(
    "told",
    [
        5,
        None,
        [1, 2, 3, 4, 5, 6],
        *({"cycles": cycles} for cycles in (None, math.inf, True, "1")),
        {"settings": [5]},
        {"tosa": "no base64"},
        {"rewritten": 1},
        {"another": 1},
    ],
)
def test_an_entry_of_another_form_is_none(told: Any) -> None:
    known = unpack_json(KnownAnswer("eqsat", "", 1, ("--optimise=Size",), b"tosa").pack())
    with pytest.raises(ValueError):
        KnownAnswer.unpack(pack_json({**known, **told} if isinstance(told, dict) else told))
