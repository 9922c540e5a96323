"""Ctrl-C is never lost, wherever it arrives, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT, python

SETUP = """
import gc, os, signal, subprocess, sys, tempfile, threading, time, weakref
from pathlib import Path
from eqsat.ground import files
from eqsat.cli.interrupt import ends_search_first, on_interrupt_say, stops_command

signal.signal(signal.SIGINT, signal.default_int_handler)
place = Path(sys.argv[1])

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)

class Finalized:
    def __del__(self):
        interrupt()

def guarded():
    with stops_command():
        Path(tempfile.mkdtemp(), "file").write_text("temporary")
        work()
        print("went on", flush=True)
"""
WHERE = {
    "a finalizer": "def work():\n    Finalized()",
    "a weak reference's callback": (
        "def work():\n    x = weakref.WeakValueDictionary()\n    y = threading.Event()\n    r = weakref.ref(y, lambda _: interrupt())\n    del y"
    ),
    "a handler of every exception": "def work():\n    try:\n        interrupt()\n    except BaseException:\n        pass",
    "a sleep": "def work():\n    threading.Timer(0.3, interrupt).start()\n    time.sleep(60)",
    "a wait for a lock": "def work():\n    threading.Timer(0.3, interrupt).start()\n    threading.Event().wait()",
    "a cleanup": "def work():\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        pass\n    finally:\n        interrupt()",
    "what was begun": (
        "def work():\n    with files.beside(place / 'out') as t:\n        t.write_text('half')\n        interrupt()"
    ),
    "processes": (
        "def work():\n    p = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "    (place / 'pid').write_text(str(p.pid))\n    interrupt()"
    ),
}


def run(code: str, place: Path) -> tuple[int, str, str]:
    temporary = place / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", f"{SETUP}\n{code}\nguarded()", place],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert list(temporary.iterdir()) == []
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("where", WHERE)
def test_it_ends_the_command(where: str, tmp_path: Path) -> None:
    code, out, err = run(WHERE[where], tmp_path)
    assert (code, out, err) == (130, "", "error: interrupted; nothing was written\n")
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("tmp", "pid")] == []
    if where == "processes":
        status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
        assert not status.exists() or status.read_text().split()[2] == "Z"


SAID = "interrupted: the best graph so far is verified and written; Ctrl-C again stops at once\n"


@pytest.mark.parametrize(
    "within", ["interrupt()", "threading.Timer(0.2, interrupt).start(); time.sleep(0.6)", WHERE["a finalizer"][11:]]
)
def test_the_first_ends_only_a_search(within: str, tmp_path: Path) -> None:
    """`end` is asked by the handler and by the thread: both see the signal, maybe only when the search is over."""
    work = f"def work():\n    with ends_search_first(lambda: True):\n        {within.strip()}\n    time.sleep(0.2)"
    assert run(work, tmp_path) == (0, "went on\n", SAID)


@pytest.mark.parametrize(
    ("searches", "second", "said"),
    [(True, "        interrupt()", SAID), (True, "    interrupt()", SAID), (False, "", "")],
    ids=["the second during the search", "the second after it", "the first where none is under way"],
)
def test_the_second_ends_the_command_and_so_does_the_first_without_a_search(
    searches: bool, second: str, said: str, tmp_path: Path
) -> None:
    work = f"def work():\n    with ends_search_first(lambda: {searches}):\n        interrupt()\n{second}"
    assert run(work, tmp_path) == (130, "", said + "error: interrupted; nothing was written\n")


def test_an_output_is_whole_before_it_ends(tmp_path: Path) -> None:
    """Here the signal arrives between the two renamings of an archive, which would lose the old one."""
    work = """
from eqsat.runs import saved
saved.write(place / "run", {}, {"x": b"old"})
replace = os.replace

def slow(old, new):
    replace(old, new)
    interrupt()

def work():
    os.replace = slow
    saved.write(place / "run", {}, {"x": b"new"})
    time.sleep(60)
"""
    code, out, err = run(work, tmp_path)
    assert (code, out) == (130, "") and err.endswith(f"{tmp_path / 'run'} was written\n")
    assert (tmp_path / "run" / "x").read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "tmp"]


def test_without_a_signal_all_is_as_before(tmp_path: Path) -> None:
    code, out, err = run(
        "def work():\n    on_interrupt_say('said')\nbefore = signal.getsignal(signal.SIGINT), tempfile.gettempdir()\nold = guarded\n"
        "def guarded():\n    old()\n    assert before == (signal.getsignal(signal.SIGINT), tempfile.gettempdir())\n"
        "    assert os.environ['TMPDIR'] == tempfile.gettempdir()\n    assert threading.active_count() == 1",
        tmp_path,
    )
    assert (code, out, err) == (0, "went on\n", "")


def test_nothing_is_imported_before_ctrl_c_is_taken_care_of() -> None:
    """Python's own handler writes a traceback where the main module is still importing."""
    code = "import sys; before = set(sys.modules); import eqsat.cli.__main__; print(*sorted(set(sys.modules) - before))"
    loaded = set(python("-c", code, check=True).stdout.split())
    others = {m for m in loaded if m.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"eqsat", "eqsat.cli", "eqsat.cli.__main__", "eqsat.ground", "eqsat.ground._version"}
