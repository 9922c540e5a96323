"""Answers of earlier searches: taken again where nothing changed, compared where something did, and never trusted."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.search.answer_store import AnswerStore, KnownAnswer
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import clamp, conv, finish, transpose

TARGET = "ethos-u85-256"
QUICK = Options(effort=1)


def around(seed: int = 1) -> TensorGraph:
    """A CLAMP between two transposes that are of no use."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 16, 16, 16), "INT8"), 16, seed=seed)
    x = transpose(g, clamp(g, transpose(g, x, 0, 3, 1, 2), -128, 126), 0, 2, 3, 1)
    return finish(g, conv(g, x, 8, seed=seed + 1))


def answered(store: AnswerStore | None, graph: TensorGraph | None = None, options: Options = QUICK) -> Result:
    given = dumps(graph or around())
    return optimize_tosa(given, TARGET, stock=given, options=options, with_settings=True, store=store)


@pytest.fixture
def store(tmp_path: Path) -> AnswerStore:
    return AnswerStore(tmp_path / "prices.sqlite")


def files(store: AnswerStore) -> list[Path]:
    return sorted(store.directory.rglob("*.answer"))


def test_the_same_search_again_gives_its_answer(store: AnswerStore) -> None:
    first, again = answered(store), answered(store)
    assert first.corrected < first.stock_corrected and not first.remembered
    assert again.remembered and again.searched and again.run is None and again.extractions == []
    for name in ("tosa", "chosen", "cycles", "corrected", "footprint", "settings", "verified", "proved", "warnings"):
        assert getattr(again, name) == getattr(first, name), name
    assert again.binary_verified and again.stock_binary_proved and again.record()["stop"] == "remembered"
    assert not answered(None).remembered and len(files(store)) == 1


def test_that_nothing_was_gained_is_remembered_too(store: AnswerStore) -> None:
    g = TensorGraph()
    graph = finish(g, conv(g, g.add_input("x", (1, 8, 8, 16), "INT8"), 16))
    first, again = answered(store, graph), answered(store, graph)
    assert first.chosen == again.chosen == "explicit" and again.remembered and again.kept == first.kept != ""


def test_another_search_of_the_graph_starts_from_what_is_known(store: AnswerStore) -> None:
    best = answered(store)
    without_rules = answered(store, options=Options(effort=0))
    assert not without_rules.remembered and without_rules.corrected == best.corrected
    assert answered(None, options=Options(effort=0)).corrected > best.corrected
    other = answered(store, around(seed=5))
    assert not other.remembered and len(files(store)) == 3


def test_damage_costs_the_entry_alone(store: AnswerStore) -> None:
    first = answered(store)
    (file,) = files(store)
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[at] ^= int(rng.integers(1, 256))
        file.write_bytes(data[: int(rng.integers(0, len(data)))] if rng.random() < 0.5 else data)
        if file.read_bytes() != whole:
            assert store.entries(file.parent.name) == {} and not file.exists()
    file.write_bytes(whole[:-1])
    again = answered(store)
    assert not again.remembered and again.tosa == first.tosa and files(store) == [file]


@pytest.mark.parametrize(
    "kind", ["another graph", "no graph", "other cycles", "no such settings", "another accelerator", "bomb"]
)
def test_a_forged_entry_changes_no_answer(kind: str, store: AnswerStore) -> None:
    first = answered(store)
    (file,) = files(store)
    real = KnownAnswer.unpacked(file.read_bytes())
    tosa = {"another graph": dumps(around(seed=5)), "no graph": b"no graph", "bomb": b"\0" * (600 << 20)}
    settings = {
        "no such settings": ("--no-such-flag",),
        "another accelerator": ("--accelerator-config=ethos-u85-2048",),
    }
    forged = KnownAnswer(
        "eqsat",
        "",
        real.cycles - (kind == "other cycles"),
        real.sram,
        real.flash,
        settings.get(kind, real.settings),
        tosa.get(kind, real.tosa),
    )
    file.write_bytes(forged.packed())
    again = answered(store)
    assert not again.remembered and again.tosa == first.tosa and again.verified and again.corrected == first.corrected


def test_a_place_that_cannot_be_used_costs_what_would_be_remembered(tmp_path: Path) -> None:
    (tmp_path / "prices.answers").write_text("a file")
    result = answered(AnswerStore(tmp_path / "prices.sqlite"))
    assert result.corrected < result.stock_corrected and (tmp_path / "prices.answers").read_text() == "a file"


def test_a_graph_has_few_entries_and_the_store_forgets_all(store: AnswerStore) -> None:
    answer = KnownAnswer("stock", "", 1, 2, 3, (), b"")
    for k in range(6):
        store.put("ab", f"{k:x}", answer)
    assert len(store.entries("ab")) == 4 and store.entries("ab")["5"] == answer and store.entries("cd") == {}
    assert store.size()[0] == 4 and store.size()[1] > 0
    assert store.clear() == 4 and store.size() == (0, 0)


@pytest.mark.parametrize(
    "header", [b"5", b"null", b"[1, 2, 3, 4, 5, 6]", b'["a", "b", null, 1, 1, []]', b'["a", "b", 1e999, 1, 1, []]']
)
def test_an_entry_of_another_form_is_none(header: bytes) -> None:
    payload = zlib.compress(header + b"\n")
    with pytest.raises(ValueError):
        KnownAnswer.unpacked(hashlib.blake2b(payload, digest_size=16).digest() + payload)
