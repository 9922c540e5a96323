"""Small files that were made to do harm end in one line, at once and within the memory that there is."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from eqsat.cli.defaults import defaults
from eqsat.ground.files import InputError
from eqsat.search.recall import AnswerStore, KnownAnswer
from eqsat.store.store import ANSWERS, Store
from tests.command import run


def certificate(name: str, known: object = 1) -> str:
    files = [{"name": name, "sha256": "0" * 64}] * 2
    return json.dumps({"certificate": known, "verdict": "proved", "files": files})


@pytest.mark.parametrize(
    "text, reason",
    [
        (certificate("/dev/zero"), "is no file"),
        (certificate("/dev/stdin"), "is no file"),
        (certificate("a\0b"), "cannot read"),
        (certificate("x" * 5000), "cannot read"),
        (certificate("a", "\x1b[31m" + "x" * 100_000), "is a certificate of format \\x1b[31m"),
        ("[" * 500_000, "is no certificate: it is not JSON"),
        ('{"certificate":' * 300_000, "is no certificate: it is not JSON"),
    ],
)
def test_certificates(text: str, reason: str, tmp_path: Path) -> None:
    place = tmp_path / "c.json"
    place.write_text(text)
    done = run("prove", "--check", str(place), input="")
    message = done.stderr.replace(f"{place} ", "")
    assert done.exit_code == 2 and reason in message, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "\x1b" not in done.stderr


def test_defaults(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.eqsat]\nx = " + "[" * 100_000)
    with pytest.raises(InputError, match=r"pyproject\.toml cannot be read"):
        defaults({}, tmp_path)


def test_a_small_answer_is_no_large_one(tmp_path: Path) -> None:
    """A header of a quarter of a GiB from a quarter of a MiB: neither unpacked nor decoded."""
    payload = zlib.compress(b"[" + b"0," * (1 << 27) + b"0]\n", 9)
    file = tmp_path / "store.sqlite"
    with closing(Store(file)) as store:
        store.put(ANSWERS, {"0a/0b": payload})
        assert store.family(ANSWERS, "0a/") == {"0b": payload}
    tracemalloc.start()
    assert AnswerStore(file).entries("0a") == {}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120 << 20


def test_an_answer_that_packs_well_is_kept() -> None:
    answer = KnownAnswer("eqsat", "", 1, (), bytes(32 << 20))
    assert KnownAnswer.unpacked(answer.packed()) == answer
