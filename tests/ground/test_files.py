"""Outputs are whole or absent and replace no device; temporary directories go with their processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eqsat.ground import temporary
from eqsat.ground.files import (
    InputError,
    OutputError,
    check_directory,
    check_distinct,
    check_input,
    check_output,
    check_outputs,
    read_bytes,
    write_atomically,
)
from tests.command import ROOT


def test_an_output_has_the_permissions_that_the_user_gives_to_new_files(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "private", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    write_atomically(tmp_path / "usual", b"x")
    assert stat.S_IMODE((tmp_path / "usual").stat().st_mode) == 0o666 & ~before


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    check_output(pipe)
    write_atomically(pipe, b"through it")
    reader.join(10)
    assert got == [b"through it"] and stat.S_ISFIFO(pipe.stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_device_that_is_full_is_an_error_and_stays() -> None:
    check_output(Path("/dev/full"))
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left"):
        write_atomically(Path("/dev/full"), b"x" * 100_000)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_name_that_no_file_can_have_is_an_error() -> None:
    with pytest.raises(InputError, match="cannot read .*null"):
        read_bytes(Path("a\0b"))


def test_a_refused_place_names_its_option_and_what_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="missing does not exist: make it first or choose another place with --report"):
        check_output(tmp_path / "missing" / "x.html", "--report")
    for below in ("file/x", "file/y/x"):
        with pytest.raises(InputError, match="file is no directory: choose another place with -o"):
            check_output(tmp_path / below)


@pytest.mark.parametrize("check", [check_output, check_directory, check_input])
def test_a_place_that_cannot_be_looked_at_is_bad_input(check, tmp_path: Path) -> None:
    """A name that is too long fails as a closed directory does, also for root."""
    for place in (tmp_path / ("x" * 300), tmp_path / ("x" * 300) / "y"):
        with pytest.raises(InputError, match="File name too long"):
            check(place)


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("x" * 255), b"whole")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("outputs", "taken"),
    [
        ({"-o": "a", "--report": "b"}, ""),
        ({"-o": "/dev/null", "--report": "/dev/null"}, ""),
        ({"-o": "a", "--report": None}, ""),
        ({"-o": "a", "--report": "d/../a"}, r"a \(-o\)"),
        ({"-o": "run/a", "--save": "run"}, r"run/a \(-o\)"),
        ({"--save": "run", "--report": "run/a"}, r"run \(--save\)"),
        ({"-o": "in"}, "the input in"),
        ({"-o": "link"}, "the input in"),
        ({"--save": "d"}, "the input d/in"),
    ],
)
def test_no_output_takes_the_place_of_another_one_or_of_an_input(
    outputs: dict[str, str | None], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("in")
    places = {option: None if name is None else Path(name) for option, name in outputs.items()}
    if not taken:
        check_distinct(places, [Path("in"), Path("d/in")])
        return
    with pytest.raises(InputError, match=f"and {taken} would be in one place"):
        check_distinct(places, [Path("in"), Path("d/in")])


def test_outputs_are_checked_one_by_one_and_together(tmp_path: Path) -> None:
    place = tmp_path / "a"
    check_outputs({"-o": place, "--report": None}, [tmp_path / "in"])
    with pytest.raises(InputError, match="missing does not exist: .* with --report"):
        check_outputs({"-o": place, "--report": tmp_path / "missing" / "x"})
    with pytest.raises(InputError, match="would be in one place"):
        check_outputs({"-o": place, "--report": place})


KILLED = """
import os, signal, sys
from eqsat.ground.temporary import make_directory
print(make_directory(sys.argv[1]), flush=True)
sys.stdin.read(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _as_a_new_process() -> None:
    temporary._remove_dead.cache_clear()


def test_directories_of_killed_processes_go_at_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        (theirs / "file").write_text("facts")
        first = Path(temporary.make_directory(str(tmp_path)))
        assert theirs.exists() and first.parent == tmp_path  # it is running
        process.communicate("x")
    temporary._remove_dead.cache_clear()
    second = Path(temporary.make_directory(str(tmp_path)))
    assert set(tmp_path.iterdir()) == {first, second}


def test_a_process_id_that_is_used_again_is_no_match(tmp_path: Path) -> None:
    old = tmp_path / f"eqsat-{temporary._system()}-{os.getpid()}-1-abc"
    others = [tmp_path / f"eqsat-00000000-{os.getpid()}-1-abc", tmp_path / "eqsat-abc", tmp_path / "else"]
    for directory in (old, *others):
        directory.mkdir()
    mine = Path(temporary.make_directory(str(tmp_path)))
    assert set(tmp_path.iterdir()) == {mine, *others}
