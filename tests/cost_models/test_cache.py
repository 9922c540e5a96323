"""Whatever happens to the file of prices costs only the cache."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cost_models.cache import PriceCache, default_path
from eqsat.files import InputError
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
    path = tmp_path / "deep" / "er" / "prices.sqlite"
    cache = PriceCache(path)
    cache.put({"a": 1.5, "b": 0})
    cache.put({"a": 2})
    cache.put({})
    assert cache.get(["a", "b", "c"]) == {"a": 2, "b": 0}
    assert cache.get([]) == {}
    cache.close()
    assert reopened(path, "a") == {"a": 2}


def test_many_keys(tmp_path: Path) -> None:
    cache = PriceCache(tmp_path / "p")
    prices = {f"k{i}": float(i) for i in range(1700)}
    cache.put(prices)
    assert cache.get(list(prices)) == prices
    cache.close()


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p"
    root = Path(__file__).parents[2]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, who], cwd=root) for who in "ab"]
    assert [w.wait(120) for w in writers] == [0, 0]
    keys = [f"{who}{i}" for who in "ab" for i in range(40)]
    assert reopened(path, *keys) == {k: float(k[1:]) for k in keys}


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_corrupted_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p"
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
    path = tmp_path / "prices.sqlite"
    path.write_bytes(content)
    for make in (PriceCache, lambda p: Options(cache=p), lambda p: Options(cache=str(p))):
        with pytest.raises(InputError, match="prices.sqlite is no file of prices"):
            make(path)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    cache = PriceCache()
    cache.put({"a": 1})
    assert cache.get(["a"]) == {} and "is no file of prices" in cache.failure
    cache.close()
    assert path.read_bytes() == content and [p.name for p in tmp_path.iterdir()] == ["prices.sqlite"]


def test_a_file_damaged_inside_is_replaced_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "p"
    cache = PriceCache(path)
    cache.put({f"k{i}": i for i in range(2000)})
    cache.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xee" * (len(data) - 4096)
    path.write_bytes(data)
    assert reopened(path, "k7") == {}
    cache = PriceCache(path)
    cache.put({"new": 1})
    assert cache.get(["new"]) == {"new": 1}
    cache.close()


def test_a_database_in_use_is_not_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p"
    cache = PriceCache(path)
    cache.put({"a": 1})
    cache.close()
    blocker = sqlite3.connect(path)
    blocker.execute("pragma journal_mode=delete")
    blocker.execute("begin exclusive")
    connect = sqlite3.connect
    monkeypatch.setattr("cost_models.cache.sqlite3.connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0}))
    other = PriceCache(path)
    assert other.get(["a"]) == {}
    other.close()
    blocker.rollback()
    blocker.close()
    monkeypatch.undo()
    assert reopened(path, "a") == {"a": 1}


@pytest.mark.parametrize("where", ["file/prices.sqlite", "file/more/prices.sqlite", "directory"])
def test_a_place_that_cannot_be_written_costs_only_the_cache(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("a regular file, no directory")
    (tmp_path / "directory").mkdir()
    cache = PriceCache(tmp_path / where)
    cache.put({"a": 1})
    assert cache.get(["a"]) == {}
    cache.close()
    assert (tmp_path / "file").read_text() == "a regular file, no directory" and (tmp_path / "directory").is_dir()


@pytest.mark.parametrize("bad", [-1.0, -math.inf, math.inf, math.nan])
def test_what_is_no_price_is_refused(tmp_path: Path, bad: float) -> None:
    cache = PriceCache(tmp_path / "p")
    cache.put({"bad": bad})
    cache.put({"good": 1})
    assert cache.get(["bad", "good"]) == {"good": 1}
    cache.close()


@pytest.mark.parametrize(
    "damage",
    ["cycles = 7.0", "cycles = 'text'", "cycles = -1.0", "mark = x'00'", "mark = substr(mark, 1, 3)", "key = 'b'"],
)
def test_an_entry_that_was_damaged_is_dropped(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "p"
    cache = PriceCache(path)
    cache.put({"a": 3, "good": 1})
    cache.close()
    db = sqlite3.connect(path)
    db.execute(f"update checked set {damage} where key = 'a'")
    db.commit()
    assert reopened(path, "a", "b", "good") == {"good": 1}
    assert db.execute("select key from checked where key in ('a', 'b')").fetchall() == []
    db.close()


def test_what_was_not_used_is_forgotten_first(tmp_path: Path) -> None:
    path = tmp_path / "p"
    cache = PriceCache(path, limit=10)
    cache.put({f"k{i}": i for i in range(10)})
    cache.close()
    db = sqlite3.connect(path)
    db.execute("update checked set used = 1000 + rowid")  # long ago, in the order in which they came
    db.commit()
    db.close()
    cache = PriceCache(path, limit=10)
    assert cache.get(["k0", "k1"]) == {"k0": 0, "k1": 1}
    cache.put({"new": 1})
    left = cache.get([f"k{i}" for i in range(10)] + ["new"])
    assert {"k0", "k1", "new"} <= left.keys() and "k2" not in left and len(left) == cache.info().entries <= 10
    cache.close()


def test_info_and_clear(tmp_path: Path) -> None:
    cache = PriceCache(tmp_path / "p")
    cache.put({f"k{i}": i for i in range(1000)})
    full = cache.info()
    assert (full.entries, full.path) == (1000, tmp_path / "p") and full.bytes > 20_000
    assert cache.clear() == 1000
    assert cache.info().entries == 0 and cache.info().bytes < full.bytes and cache.get(["k1"]) == {}
    cache.put({"a": 1})
    assert cache.get(["a"]) == {"a": 1}
    cache.close()


def test_the_path_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "here"))
    assert default_path() == tmp_path / "here" / "prices.sqlite"
    monkeypatch.delenv("EQSAT_CACHE")
    assert "eqsat" in str(default_path())
