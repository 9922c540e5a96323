"""Ctrl-C ends the command, at once and whatever it is doing.

An exception, which is what Python makes of SIGINT, is lost where it is raised inside a finalizer, a weak reference's callback or native code
that calls back, and anybody may catch it on its way; the command then goes on. So nothing is raised here: a thread that waits for
the signal, or the handler if it runs first, kills the processes that were started, removes temporary files and what is unfinished beside
the outputs, and ends the process. The thread also gets its turn where the main thread is inside native code, and the handler where somebody
else waits for signals.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from eqsat import files

INTERRUPTED = 130
#: Show the cursor and clear the line, which a progress display may have taken.
_TERMINAL = b"\x1b[?25h\r\x1b[2K"
_message = ""
#: The file descriptor of the stderr that the user sees.
_stderr = 2


@contextmanager
def speaking_on(descriptor: int) -> Iterator[None]:
    """Within it stderr itself is not the user's, but `descriptor` is."""
    global _stderr
    _stderr = descriptor
    try:
        yield
    finally:
        _stderr = 2


def on_interrupt_say(message: str) -> None:
    """What the command says if it is interrupted from now on, instead of what became of its output."""
    global _message
    _message = message


@contextmanager
def stops_command() -> Iterator[None]:
    """Within it SIGINT ends the process with exit code 130. In other threads than the main one nothing changes, and where SIGINT is
    ignored, as in a shell's background jobs, it still is."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    on_interrupt_say("")
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    own = tempfile.mkdtemp(prefix="eqsat-")
    waiting, woken = socket.socketpair()
    woken.setblocking(False)
    thread = threading.Thread(target=_wait, args=(waiting, own), name="eqsat-interrupt", daemon=True)
    thread.start()
    old_descriptor = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    old_handler = signal.signal(signal.SIGINT, lambda number, frame: _handle(own))
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


def _wait(waiting: socket.socket, own: str) -> None:
    while numbers := waiting.recv(16):
        if signal.SIGINT in numbers:
            _stop(own)


def _handle(own: str) -> None:
    """In the main thread. Where something is just being put in its place, the waiting thread stops the command afterwards."""
    if not files.is_placing():
        _stop(own)


def _stop(own: str) -> None:
    placed = files.abandon()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    shutil.rmtree(own, ignore_errors=True)
    said = _message or (f"{placed[-1]} was written" if placed else "nothing was written")
    with suppress(OSError):
        os.write(_stderr, (_TERMINAL if os.isatty(_stderr) else b"") + f"error: interrupted; {said}\n".encode())
    os._exit(INTERRUPTED)
