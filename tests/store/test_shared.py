"""A team's store, in a folder and behind a real HTTP server: whole entries or none, and whatever fails costs time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.recall import AnswerStore
from eqsat.store.shared import SharedStore
from eqsat.tosa import dumps
from tests.search.test_recall import around

TARGET = "ethos-u85-256"


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
    monkeypatch.setattr("eqsat.store.shared.LARGEST", 1000)
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


def answered(place: str, effort: int = 1) -> Result:
    given = dumps(around())
    options = Options(effort=effort, cache=place)
    return optimize_tosa(given, TARGET, stock=given, options=options, with_settings=True, store=AnswerStore(place))


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
