"""Whatever happens to the file of prices costs only the cache."""

from __future__ import annotations

import gzip
import math
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from cost_models.cache import PriceCache
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from tests.command import ROOT

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


def asked(place: Path | str | None, *keys: str, put: Mapping[str, float] | None = None) -> dict[str, float]:
    """The prices that a cache has which is opened there, and closed again; put: what it gets before."""
    with closing(PriceCache(place)) as cache:
        if put is not None:
            cache.put(put)
        return cache.get(keys)


def is_left_alone(path: Path, content: bytes) -> bool:
    return path.read_bytes() == content and [p.name for p in path.parent.iterdir()] == [path.name]


def test_prices_stay(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "store.sqlite"
    asked(path, put={"a": 1.5, "b": 0})
    assert asked(path, "a", "b", "c", put={"a": 2}) == {"a": 2, "b": 0}
    assert asked(path, put={}) == {} and asked(path, "a") == {"a": 2}


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, who], cwd=ROOT) for who in "ab"]
    assert [w.wait(120) for w in writers] == [0, 0]
    keys = [f"{who}{i}" for who in "ab" for i in range(40)]
    assert asked(path, *keys) == {k: float(k[1:]) for k in keys}


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_corrupted_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.sqlite"
    path.write_bytes(content)
    assert asked(path, "a", put={"a": 3}) == {"a": 3} == asked(path, "a")


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
    with closing(PriceCache()) as cache:
        cache.put({"a": 1})
        assert cache.get(["a"]) == {} and "is no store of eqsat" in cache.store.warnings[0]
    assert is_left_alone(path, content)


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
    assert is_left_alone(path, content)


def test_a_database_in_use_is_not_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, connect = tmp_path / "p.sqlite", sqlite3.connect
    asked(path, put={"a": 1})
    with closing(connect(path)) as blocker, monkeypatch.context() as patch:
        blocker.execute("begin exclusive")
        patch.setattr("eqsat.store.local.sqlite3.connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0}))
        assert asked(path, "a") == {}
        blocker.rollback()
    assert asked(path, "a") == {"a": 1}


@pytest.mark.parametrize("where", ["file/store.sqlite", "file/more/store.sqlite", "directory.sqlite"])
def test_a_place_that_cannot_be_written_costs_only_the_cache(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("a regular file, no directory")
    (tmp_path / "directory.sqlite").mkdir()
    assert asked(tmp_path / where, "a", put={"a": 1}) == {}
    assert (tmp_path / "file").read_text() == "a regular file, no directory"
    assert (tmp_path / "directory.sqlite").is_dir()


@pytest.mark.parametrize("bad", [-1.0, -math.inf, math.inf, math.nan])
def test_what_is_no_price_is_refused(tmp_path: Path, bad: float) -> None:
    assert asked(tmp_path / "p.sqlite", "bad", "good", put={"bad": bad, "good": 1}) == {"good": 1}


@pytest.mark.parametrize(
    "damage",
    [
        "value = x'0000000000001c40'",
        "value = 'text'",
        "value = 7",
        "value = zeroblob(80000)",
        "mark = x'00'",
        "mark = substr(mark, 1, 3)",
        "key = 'price:b'",
    ],
)
def test_an_entry_that_was_damaged_is_dropped(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "p.sqlite"
    asked(path, put={"a": 3, "good": 1})
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"update entries set {damage} where key = 'price:a'")
        db.commit()
        assert asked(path, "a", "b", "good") == {"good": 1}
        assert db.execute("select key from entries where key in ('price:a', 'price:b')").fetchall() == []


def test_a_batch_is_fetched_from_a_shared_store(tmp_path: Path) -> None:
    """Under the name of what was asked for at once, found or not, and each price is then known alone."""
    first, other = (f"{tmp_path / name},file://{tmp_path}/shared" for name in ("first", "other"))
    with closing(PriceCache(first)) as cache:
        cache.put({"a": 1})
        assert cache.get(["a", "b", "c"]) == {"a": 1}
        cache.put({"b": 2})  # "c" has no price
    assert asked(other, "a", "b") == {}
    assert asked(other, "c", "b", "a") == {"a": 1, "b": 2} == asked(other, "a", "b")


@pytest.mark.parametrize(
    "batch",
    [
        *(b"", b"5", b"[1]", b"{", b'{"a": 1}', b'{"a": "!"}', b'{"a": "AA=="}', b'{"a": "AAAAAAAA8L8="}'),
        gzip.compress(b"[", mtime=0),
    ],
)
def test_a_batch_of_another_form_has_no_prices(tmp_path: Path, batch: bytes) -> None:
    first, other, third = (f"{tmp_path / name},file://{tmp_path}/shared" for name in ("first", "other", "third"))
    with closing(PriceCache(first)) as cache:
        assert cache.get(["a"]) == {}
        cache.put({"a": 1})
        (name,) = (f"price/{f.name}" for f in (tmp_path / "shared" / "price").iterdir())
        cache.store.shared.put(name, batch)
    with closing(PriceCache(other)) as cache:
        assert cache.get(["a"]) == {}
        cache.put({"a": 2})
    assert asked(third, "a") == {"a": 2}
