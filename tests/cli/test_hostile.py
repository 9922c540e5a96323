"""Small files that were made to do harm end in one line, at once and within the memory that there is."""

from __future__ import annotations

import json
import os
import tracemalloc
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from eqsat.search.recall import AnswerStore, KnownAnswer
from eqsat.store.store import ANSWERS, Store
from eqsat.tosa import dumps
from tests.command import python, run
from tests.graphs import transposes


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
    assert KnownAnswer.unpack(answer.pack()) == answer


@pytest.mark.parametrize(
    "arguments",
    [
        "optimize in.tosa -t ethos-u85-256 -o in.tosa",
        "optimize in.tosa -t ethos-u85-256 -o out.tosa --report out.tosa",
        "optimize run/chosen.tosa -t ethos-u85-256 -o out.tosa --save run",
        "compile net.py:model -t ethos-u85-256 -o net.py",
        "compile net.py:model -t ethos-u85-256 -o out.pte --config my.ini --report my.ini",
        "explain run --report run/manifest.json",
        "prove in.tosa in.tosa --certificate in.tosa",
        "run in.pte --random 1 -o in.pte",
        "run in.pte --inputs in.npz -o in.npz",
        "cache export store/store.sqlite --cache store",
    ],
)
def test_no_file_is_lost_to_an_output(arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.tosa", "in.pte", "in.npz", "net.py", "my.ini", "run/manifest.json", "run/chosen.tosa"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"format": "eqsat-run", "files": {"chosen.tosa": {}}}')
    Store("store").close()
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    result = run(*arguments.split())
    assert result.exit_code == 2 and "would be in one place" in result.stderr, result.output
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_failure_of_ours_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback would end with exit code 1, which says that a check failed."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("eqsat.runs.load", broken)
    result = run("explain", tmp_path)
    assert result.exit_code == 3, result.output
    assert "the command failed: RuntimeError: broken" in result.stderr.replace("\n", " ")


def test_a_store_that_cannot_be_used_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in (["clear"], ["export", str(tmp_path / "x")]):
        result = run("cache", *command, "--cache", tmp_path / "file")
        assert result.exit_code == 2 and "cannot be used: File exists" in result.stderr, result.output
    assert not (tmp_path / "x").exists()


PROVE = "prove in.tosa in.tosa --certificate out"
FULL = "error: the output cannot be printed: No space left on device"


@pytest.mark.parametrize(
    ("asked", "output", "code", "words"),
    [
        (PROVE, "/dev/full", 3, FULL),
        (PROVE, "closed", 0, ""),
        (PROVE, "a pipe without a reader", 0, ""),
        ("optimize in.tosa -t ethos-u55-128 --effort 0 -o out", "/dev/full", 3, FULL),
    ],
)
def test_a_command_that_cannot_print_does_its_work(
    asked: str, output: str, code: int, words: str, tmp_path: Path
) -> None:
    """A traceback would end with exit code 1, by which `eqsat prove` says that graphs differ."""
    (tmp_path / "in.tosa").write_bytes(dumps(transposes()))
    command = ("-m", "eqsat.cli", *asked.split())
    if output == "closed":
        done = python(*command, cwd=tmp_path, preexec_fn=lambda: os.close(1))
    elif output.startswith("/"):
        with open(output, "w") as stream:
            done = python(*command, cwd=tmp_path, stdout=stream)
    else:
        read, write = os.pipe()
        os.close(read)
        done = python(*command, cwd=tmp_path, stdout=write)
        os.close(write)
    told = done.stderr.splitlines()[-1:]
    assert (done.returncode, told) == (code, [words] if words else [])
    assert (tmp_path / "out").exists()
