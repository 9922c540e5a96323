"""Temporary directories: those of killed processes go, those of others stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eqsat.ground import temporary

ROOT = Path(__file__).parents[2]
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
