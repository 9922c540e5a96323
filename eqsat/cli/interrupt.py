"""Ctrl-C ends the command at once; during a search the first one ends only the search.

Python turns SIGINT into an exception, which may be lost in a finalizer, a callback of a weak reference, or native code
that calls back, and which any code on its way may catch. So nothing is raised here, and a search checks whether it is
to end (`eqsat.search.interruption`). Otherwise a thread that waits for the signal, or the handler if it runs first,
kills the processes that were started, removes temporary and unfinished files, and ends the process.
The thread runs even while the main thread is inside native code, the handler even if other code waits for signals.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from eqsat.ground import files
from eqsat.ground.files import make_directory

#: Exit code after an interrupt.
INTERRUPTED = 130
#: Escape sequences, since a progress display may have used the line and hidden the cursor.
_CLEAR_LINE, _SHOW_CURSOR = b"\r\x1b[2K", b"\x1b[?25h"
_message = ""
#: Ends the current search and returns whether it did.
_end_search: Callable[[], bool] = lambda: False  # noqa: E731
#: The file descriptor of the stderr that the user sees.
_stderr = 2


@contextmanager
def speaking_on(descriptor: int) -> Iterator[None]:
    """Within it messages go to `descriptor`, since stderr itself is redirected."""
    global _stderr
    _stderr = descriptor
    try:
        yield
    finally:
        _stderr = 2


def on_interrupt_say(message: str) -> None:
    """Sets the message of an interrupt, instead of what became of the output."""
    global _message
    _message = message


@contextmanager
def ends_search_first(end: Callable[[], bool]) -> Iterator[None]:
    """Within it the first SIGINT only ends the search. end: ends it and returns whether it did; may be called twice."""
    global _end_search
    _end_search, before = end, _end_search
    try:
        yield
    finally:
        _end_search = before


@contextmanager
def stops_command() -> Iterator[None]:
    """Within it SIGINT ends the process with exit code 130, unless it is ignored, as in a shell's background jobs.

    Outside the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    on_interrupt_say("")
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    own = make_directory()
    waiting, woken = socket.socketpair()
    woken.setblocking(False)
    interrupts = _Interrupts(own)
    thread = threading.Thread(target=interrupts.wait, args=(waiting,), name="eqsat-interrupt", daemon=True)
    thread.start()
    old_descriptor = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    old_handler = signal.signal(signal.SIGINT, interrupts.handle)
    tempfile.tempdir = os.environ["TMPDIR"] = own
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old_handler)
        signal.set_wakeup_fd(old_descriptor)
        woken.close()
        thread.join()
        waiting.close()
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(own, ignore_errors=True)


class _Interrupts:
    """The SIGINTs of one command; the thread and the handler each count them, so that one SIGINT counts once."""

    def __init__(self, own: str) -> None:
        self._own, self._handled, self._ended_search, self._unsaid = own, 0, False, threading.Lock()

    def wait(self, waiting: socket.socket) -> None:
        """Waits for signals in a thread, until the other end is closed."""
        seen = 0
        while numbers := waiting.recv(16):
            for _ in range(numbers.count(signal.SIGINT)):
                seen += 1
                self._react(seen)

    def handle(self, number: int, frame: object) -> None:
        """Handles a signal in the main thread, or leaves it to the thread while a file is being put in place."""
        self._handled += 1
        if not files.is_placing():
            self._react(self._handled)

    def _react(self, count: int) -> None:
        if count > 1 or not (self._ended_search or _end_search()):
            _stop(self._own)
        self._ended_search = True  # the other one may see the first SIGINT only after the search
        if self._unsaid.acquire(blocking=False):
            _say("interrupted: the best graph so far is verified and written; Ctrl-C again stops at once", _CLEAR_LINE)


def _stop(own: str) -> None:
    placed = files.abandon()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    shutil.rmtree(own, ignore_errors=True)
    said = _message or (f"{placed[-1]} was written" if placed else "nothing was written")
    _say(f"error: interrupted; {said}", _SHOW_CURSOR + _CLEAR_LINE)
    os._exit(INTERRUPTED)


def _say(text: str, terminal: bytes) -> None:
    """Writes a line to the user's stderr, on a terminal after the escape sequences."""
    with suppress(OSError):
        os.write(_stderr, (terminal if os.isatty(_stderr) else b"") + f"{text}\n".encode())
