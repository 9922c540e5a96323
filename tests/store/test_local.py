"""The store on this machine: limits, damage, and one file of it for another machine."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pytest

from eqsat.ground.files import InputError, OutputError
from eqsat.options.options import Options
from eqsat.search.optimizer import Result
from eqsat.search.recall import AnswerStore
from eqsat.store.local import Kind, LocalStore, Setting
from eqsat.store.store import ANSWERS, PRICES, SharedStore, export, import_entries
from tests.search import test_recall as recall

FEW, SMALL = Kind("few", 10), Kind("small", 100, 1000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with closing(LocalStore(tmp_path / "store.sqlite")) as s:
        yield s


def test_what_was_not_used_is_forgotten_first(store: LocalStore) -> None:
    store.put({f"few:{i}": b"%d" % i for i in range(10)} | {"other:1": b"x"}, FEW)
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("update entries set used = 1000 + rowid")  # long ago, in the order in which they came
    assert store.get(["few:0", "few:1"]) == {"few:0": b"0", "few:1": b"1"}
    store.put({"few:new": b"new"}, FEW)
    left = store.range(*FEW.range())
    assert {"few:0", "few:1", "few:new"} <= left.keys() and "few:2" not in left and len(left) == 9
    assert store.get(["other:1"]) == {"other:1": b"x"}


def test_a_value_above_the_limit_is_neither_kept_nor_read(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {f"few:{size}": b"x" * size for size in (10, 11)}
    store.put(values, FEW)
    assert store.get(list(values)) == values
    monkeypatch.setattr("eqsat.store.local.LARGEST", 10)
    assert store.get(list(values)) == {"few:10": values["few:10"]}
    store.put({f"few:new {size}": b"y" * size for size in (10, 11)}, FEW)
    monkeypatch.setattr("eqsat.store.local.LARGEST", 100)
    assert set(store.range(*FEW.range())) >= {"few:10", "few:new 10"} and "few:new 11" not in store.range(*FEW.range())


def test_a_pipe_a_socket_and_a_device_are_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused at once, and never opened: to open a pipe waits for its other end."""
    monkeypatch.chdir(tmp_path)
    for name in ("pipe", "beside.sqlite"):
        os.mkfifo(name)
    Path("device.sqlite").symlink_to("/dev/zero")
    Path("of-pipe").mkdir()
    os.mkfifo("of-pipe/store.sqlite")
    with closing(socket.socket(socket.AF_UNIX)) as at:
        at.bind("socket.sqlite")
        for place in ("of-pipe", "beside.sqlite", "socket.sqlite", "device.sqlite"):
            with pytest.raises(InputError, match="is no store of eqsat: choose another place for the cache"):
                Setting.of(place).check()
            assert "is no store of eqsat" in LocalStore(Setting.of(place).file).failure
    for place in ("pipe", "pipe/below"):
        with pytest.raises(InputError, match="^pipe is no store of eqsat: choose another place for the cache"):
            Setting.of(place).check()
        assert LocalStore(Setting.of(place).file).failure


def test_bytes_are_limited_too(store: LocalStore) -> None:
    for i in range(8):
        store.put({f"small:{i}": bytes(300)}, SMALL)
    assert list(store.range(*SMALL.range())) == ["small:5", "small:6", "small:7"] and store.size(SMALL) == (3, 900)


def test_all_is_forgotten(store: LocalStore) -> None:
    store.put({PRICES.key(f"k{i}"): bytes(8) for i in range(3000)}, PRICES)
    full = store.bytes()
    assert store.size(PRICES)[0] == 3000 and full > 100_000
    store.clear()
    assert store.size(PRICES) == (0, 0) and store.bytes() < full


def test_an_export_is_one_file_for_another_machine(store: LocalStore, tmp_path: Path) -> None:
    entries = {ANSWERS.key("ab/1"): b"an answer", ANSWERS.key("ab/2"): bytes(3 << 20)}
    store.put(entries, ANSWERS)
    store.put({PRICES.key("k"): bytes(8)}, PRICES)
    file = tmp_path / "out" / "file.eqsat"
    file.parent.mkdir()
    assert export(store, file) == 3 and [p.name for p in file.parent.iterdir()] == ["file.eqsat"]
    file.chmod(0o444)
    file.parent.chmod(0o555)
    with closing(LocalStore(tmp_path / "other.sqlite")) as other:
        assert import_entries(other, file) == (3, 0) == import_entries(other, file)
        assert other.range(*ANSWERS.range()) == entries and other.size(PRICES)[0] == 1
    file.parent.chmod(0o755)
    with pytest.raises(OutputError, match="cannot write"):
        export(store, tmp_path / "store.sqlite" / "x")


def test_damage_in_an_export_costs_its_entries_alone(store: LocalStore, tmp_path: Path) -> None:
    store.put({PRICES.key(f"k{i}"): bytes(8) for i in range(50)}, PRICES)
    export(store, tmp_path / "file")
    with closing(sqlite3.connect(tmp_path / "file")) as db, db:
        db.execute("update entries set value = x'0100000000000000' where key < 'price:k2'")
        db.execute("insert into entries values ('no kind', x'00', x'00', 'never')")
    with closing(LocalStore(tmp_path / "other.sqlite")) as other:
        taken, refused = import_entries(other, tmp_path / "file")
        assert (taken, refused) == (38, 13) and other.size(PRICES)[0] == 38


@pytest.mark.parametrize("content", [None, b"", b"a text", b"SQLite format 3\0" + bytes(5000), "view"])
def test_a_file_that_is_no_export_is_an_error(store: LocalStore, tmp_path: Path, content: bytes | str | None) -> None:
    file = tmp_path / "file"
    if content == "view":
        with closing(sqlite3.connect(file)) as db, db:
            db.execute("create view entries as select 'price:a' as key, x'00' as value, x'00' as mark, 1 as used")
    elif isinstance(content, bytes):
        file.write_bytes(content)
    with pytest.raises(InputError, match="file"):
        import_entries(store, file)
    assert not content or isinstance(content, str) or file.read_bytes() == content


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    assert Setting.of(here) == Setting(here / "store.sqlite") and Setting.of(here / "a.sqlite").file.name == "a.sqlite"
    assert Setting.of(f"{here}, read-only:s3://b/x") == Setting(here / "store.sqlite", "s3://b/x", True)
    monkeypatch.setenv("EQSAT_CACHE", str(here))
    assert Setting.of() == Setting.of(here)
    monkeypatch.setenv("EQSAT_CACHE", "https://host/x")
    user = Path(platformdirs.user_cache_dir("eqsat")) / "store.sqlite"
    assert Setting.of() == Setting(user, "https://host/x")
    monkeypatch.delenv("EQSAT_CACHE")
    assert Setting.of() == Setting(user)


@pytest.mark.parametrize(
    ("text", "said"),
    [(text, "is no place") for text in ("a,b", "file:///a,file:///b", "read-only:a")]
    + [("nowhere://x", "nowhere:// is unknown")],
)
def test_what_is_no_setting(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Setting.of(text).check()


@pytest.mark.parametrize(("url", "package"), [("https://host/x", "eqsat[http]"), ("s3://bucket/x", "fsspec[s3]")])
def test_what_is_not_installed_is_told_with_its_package(
    url: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(scheme: str) -> None:
        raise ImportError(f"no module for {scheme}")

    monkeypatch.setattr("fsspec.get_filesystem_class", missing)
    with pytest.raises(InputError, match=re.escape(f"pip install '{package}'")):
        Setting.of(url).check()


@contextmanager
def serving(directory: Path, writable: bool = True) -> Iterator[str]:
    """The URL of a plain HTTP server that keeps what is PUT to it in a directory, a file for each entry."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = directory / self.path.lstrip("/")
            self.reply(200, path.read_bytes()) if path.is_file() else self.reply(404)

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if not writable:
                return self.reply(403)
            path = directory / self.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            return self.reply(201)

        def reply(self, code: int, data: bytes = b"") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=["folder", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "folder":
        yield f"file://{tmp_path}/shared"
        return
    with serving(tmp_path / "shared") as found:
        yield found


def test_entries_are_whole_or_none(url: str, tmp_path: Path) -> None:
    store, data = SharedStore(url, read_only=False), bytes(range(256)) * 5000
    assert store.get("answer/ab/1") is None
    store.put("answer/ab/1", data)
    assert store.get("answer/ab/1") == data and store.failure == ""
    file = tmp_path / "shared/answer/ab/1"
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:20], whole + b"x", b"eqsat 0\n" + whole[8:], whole[:-1] + b"x"):
        file.write_bytes(damaged)
        assert store.get("answer/ab/1") is None
    (tmp_path / "shared/answer/ab/2").write_bytes(whole)  # in the place of another
    assert store.get("answer/ab/2") is None and store.failure == ""


def test_an_entry_that_is_too_large_is_none(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SharedStore(url, read_only=False)
    store.put("price/a", bytes(2000))
    monkeypatch.setattr("eqsat.store.store.LARGEST", 1000)
    assert store.get("price/a") is None and store.failure == ""
    store.put("price/b", bytes(2000))
    assert not (tmp_path / "shared/price/b").exists()


def test_a_store_that_is_only_read(url: str, tmp_path: Path) -> None:
    SharedStore(url, read_only=False).put("price/a", b"1")
    store = SharedStore(url, read_only=True)
    store.put("price/b", b"2")
    assert store.get("price/a") == b"1" and store.get("price/b") is None and store.failure == ""


def test_a_server_that_refuses_is_not_asked_again(tmp_path: Path) -> None:
    with serving(tmp_path, writable=False) as url:
        store = SharedStore(url, read_only=False)
        store.put("price/a", b"1")
        assert "403" in store.failure and store.get("price/a") is None


def answered(place: str) -> Result:
    return recall.answered(AnswerStore(place), options=Options(effort=1, cache=place))


@pytest.mark.slow
def test_another_machine_takes_the_answer(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/shared"
    first = answered(f"{tmp_path}/first,{url}")
    other = answered(f"{tmp_path}/other,read-only:{url}")
    assert not first.remembered and other.remembered and other.verified and other.tosa == first.tosa
    assert other.settings == first.settings and other.warnings == first.warnings == []


@pytest.mark.slow
def test_a_server_that_is_not_there_costs_one_warning(tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
        result, alone = answered(f"{tmp_path}/a,{url}"), answered(f"{tmp_path}/b")
    assert result.tosa == alone.tosa and result.verified
    assert [w for w in result.warnings if "shared store" in w] == result.warnings and len(result.warnings) == 1


@pytest.mark.slow
def test_a_damaged_shared_store_changes_no_answer(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/shared"
    first = answered(f"{tmp_path}/first,{url}")
    for file in (f for f in (tmp_path / "shared").rglob("*") if f.is_file()):
        file.write_bytes(file.read_bytes()[:-3])
    other = answered(f"{tmp_path}/other,{url}")
    assert not other.remembered and other.tosa == first.tosa and other.warnings == []
    assert answered(f"{tmp_path}/third,{url}").remembered  # it was written anew
