"""Whatever happens to the file of prices costs only the cache."""

from __future__ import annotations

import gzip
import math
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cost_models.cache import PriceCache
from eqsat.ground.files import InputError
from eqsat.options.options import Options

WRITER = """
import sys
from pathlib import Path
from cost_models.cache import PriceCache
cache = PriceCache(Path(sys.argv[1]))
for i in range(40):
    cache.put({f"{sys.argv[2]}{i}": float(i), "shared": float(i)})
    assert cache.get(["shared"])
cache.close()
"""


def reopened(path: Path, *keys: str) -> dict[str, float]:
    cache = PriceCache(path)
    try:
        return cache.get(keys)
    finally:
        cache.close()


def test_prices_stay(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "store.sqlite"
    cache = PriceCache(path)
    cache.put({"a": 1.5, "b": 0})
    cache.put({"a": 2})
    cache.put({})
    assert cache.get(["a", "b", "c"]) == {"a": 2, "b": 0}
    assert cache.get([]) == {}
    cache.close()
    assert reopened(path, "a") == {"a": 2}


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    root = Path(__file__).parents[2]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, who], cwd=root) for who in "ab"]
    assert [w.wait(120) for w in writers] == [0, 0]
    keys = [f"{who}{i}" for who in "ab" for i in range(40)]
    assert reopened(path, *keys) == {k: float(k[1:]) for k in keys}


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_corrupted_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.sqlite"
    path.write_bytes(content)
    cache = PriceCache(path)
    cache.put({"a": 3})
    assert cache.get(["a"]) == {"a": 3}
    cache.close()
    assert reopened(path, "a") == {"a": 3}


@pytest.mark.parametrize("content", [b"a year of work\n" * 100, b"x", bytes(5000)])
def test_a_file_that_is_something_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    for make in (PriceCache, lambda p: Options(cache=p), lambda p: Options(cache=str(p))):
        with pytest.raises(InputError, match="store.sqlite is no store of eqsat"):
            make(path)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    cache = PriceCache()
    cache.put({"a": 1})
    assert cache.get(["a"]) == {} and "is no store of eqsat" in cache.store.warnings[0]
    cache.close()
    assert path.read_bytes() == content and [p.name for p in tmp_path.iterdir()] == ["store.sqlite"]


@pytest.mark.parametrize(
    ("definition", "kept"),
    [
        ("create table work (a text)", None),
        ("create table work (a text)", 4096),  # damaged: the table's own page is gone
        ("create view work as select 1", None),
        ("create table entries (a text)", None),
    ],
)
def test_a_database_with_other_tables_is_left_alone(tmp_path: Path, definition: str, kept: int | None) -> None:
    path = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(definition)
    content = path.read_bytes()[:kept]
    path.write_bytes(content)
    with pytest.raises(InputError, match="store.sqlite is no store of eqsat: choose another place for the cache"):
        PriceCache(path)
    assert path.read_bytes() == content and [p.name for p in tmp_path.iterdir()] == ["store.sqlite"]


def test_a_database_in_use_is_not_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.sqlite"
    cache = PriceCache(path)
    cache.put({"a": 1})
    cache.close()
    blocker = sqlite3.connect(path)
    blocker.execute("pragma journal_mode=delete")
    blocker.execute("begin exclusive")
    connect = sqlite3.connect
    monkeypatch.setattr("eqsat.store.local.sqlite3.connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0}))
    other = PriceCache(path)
    assert other.get(["a"]) == {}
    other.close()
    blocker.rollback()
    blocker.close()
    monkeypatch.undo()
    assert reopened(path, "a") == {"a": 1}


@pytest.mark.parametrize("where", ["file/store.sqlite", "file/more/store.sqlite", "directory.sqlite"])
def test_a_place_that_cannot_be_written_costs_only_the_cache(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("a regular file, no directory")
    (tmp_path / "directory.sqlite").mkdir()
    cache = PriceCache(tmp_path / where)
    cache.put({"a": 1})
    assert cache.get(["a"]) == {}
    cache.close()
    assert (tmp_path / "file").read_text() == "a regular file, no directory" and (
        tmp_path / "directory.sqlite"
    ).is_dir()


@pytest.mark.parametrize("bad", [-1.0, -math.inf, math.inf, math.nan])
def test_what_is_no_price_is_refused(tmp_path: Path, bad: float) -> None:
    cache = PriceCache(tmp_path / "p.sqlite")
    cache.put({"bad": bad})
    cache.put({"good": 1})
    assert cache.get(["bad", "good"]) == {"good": 1}
    cache.close()


@pytest.mark.parametrize(
    "damage",
    [
        "value = x'0000000000001c40'",
        "value = 'text'",
        "value = 7",
        "value = zeroblob(80000000)",
        "mark = x'00'",
        "mark = substr(mark, 1, 3)",
        "key = 'price:b'",
    ],
)
def test_an_entry_that_was_damaged_is_dropped(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "p.sqlite"
    cache = PriceCache(path)
    cache.put({"a": 3, "good": 1})
    cache.close()
    db = sqlite3.connect(path)
    db.execute(f"update entries set {damage} where key = 'price:a'")
    db.commit()
    assert reopened(path, "a", "b", "good") == {"good": 1}
    assert db.execute("select key from entries where key in ('price:a', 'price:b')").fetchall() == []
    db.close()


def test_a_batch_is_fetched_from_a_shared_store(tmp_path: Path) -> None:
    """Under the name of what was asked for at once, found or not, and each price is then known alone."""
    place = f"{{}},file://{tmp_path}/shared"
    first = PriceCache(place.format(tmp_path / "first"))
    first.put({"a": 1})
    assert first.get(["a", "b", "c"]) == {"a": 1}
    first.put({"b": 2})  # "c" has no price
    other = PriceCache(place.format(tmp_path / "other"))
    assert other.get(["a", "b"]) == {}
    assert other.get(["c", "b", "a"]) == {"a": 1, "b": 2} == other.get(["a", "b"])
    for cache in (first, other):
        cache.close()


@pytest.mark.parametrize(
    "batch",
    [
        b"",
        b"5",
        b"[1]",
        b"{",
        b'{"a": 1}',
        b'{"a": "!"}',
        b'{"a": "AA=="}',
        b'{"a": "AAAAAAAA8L8="}',
        gzip.compress(b"[", mtime=0),
    ],
)
def test_a_batch_of_another_form_has_no_prices(tmp_path: Path, batch: bytes) -> None:
    place = f"{{}},file://{tmp_path}/shared"
    with closing(PriceCache(place.format(tmp_path / "first"))) as first:
        assert first.get(["a"]) == {}
        first.put({"a": 1})
        (name,) = (f"price/{f.name}" for f in (tmp_path / "shared" / "price").iterdir())
        first.store.shared.put(name, batch)
    with closing(PriceCache(place.format(tmp_path / "other"))) as other:
        assert other.get(["a"]) == {}
        other.put({"a": 2})
    with closing(PriceCache(place.format(tmp_path / "third"))) as third:
        assert third.get(["a"]) == {"a": 2}
