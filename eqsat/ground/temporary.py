"""Temporary directories, named after their process; the next process that makes one removes those of dead processes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from functools import cache
from hashlib import blake2b
from pathlib import Path

#: eqsat-SYSTEM-PID-START-RANDOM
_NAME = re.compile(r"eqsat-([0-9a-f]{8})-(\d+)-(\d*)-.*")


def make_directory(place: str | None = None) -> str:
    """Makes a directory in `place`, None for the system's temporary directory, and returns its path."""
    place = place or tempfile.gettempdir()
    pid = os.getpid()
    _remove_dead(place, pid)
    return tempfile.mkdtemp(prefix=f"eqsat-{_system()}-{pid}-{_start(pid)}-", dir=place)


@cache
def _remove_dead(place: str, _: int) -> None:
    """Removes the directories of processes of this system that are gone, once for each process."""
    for name in os.listdir(place) if _start(os.getpid()) else ():
        found = _NAME.fullmatch(name)
        if found and found[1] == _system() and _start(int(found[2])) != found[3]:
            shutil.rmtree(os.path.join(place, name), ignore_errors=True)


def _system() -> str:
    """Returns a digest of what process ids count in: a boot of the machine and a container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        text = f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        text = ""
    return blake2b(text.encode(), digest_size=4).hexdigest()


def _start(pid: int) -> str:
    """Returns when a process started, in ticks since the boot; "" if there is none, or the system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
