"""Reading files that users name, and writing files that they ask for, which are complete or absent."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path


class InputError(ValueError):
    """Bad input; the message names it and the remedy, on one line."""


class PluginError(InputError):
    """A user's own module failed, such as a cost model; the message says which, where and how."""


class LoweringError(Exception):
    """ExecuTorch or Vela itself cannot compile what it is given; the message has the reason, on one line."""


class OutputError(InputError):
    """An output cannot be written, such as to a full disk; the message names the place."""


#: The lock of all that begin an output or put it into its place; `abandon` keeps it for good.
_PLACING = threading.RLock()
#: Temporary files and directories of outputs that are not in their places yet.
_unfinished: set[Path] = set()
#: Outputs that were put into their places.
_placed: list[Path] = []
#: How many `placing` are active, one within the other.
_depth = 0


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yields a new name beside `path` for what is to replace it; what has this name at the end is removed."""
    temporary = path.with_name(f".eqsat.{uuid.uuid4().hex[:12]}")  # short, since the length of names is limited
    with _PLACING:
        _unfinished.add(temporary)
    try:
        yield temporary
    finally:
        _remove(temporary)
        _unfinished.discard(temporary)


@contextmanager
def placing(path: Path) -> Iterator[None]:
    """Marks the block in which the file beside `path` replaces it; `abandon` waits for the end of the block."""
    global _depth
    with _PLACING:
        _depth += 1
        try:
            yield
            _placed.append(path)
        finally:
            _depth -= 1


def is_placing() -> bool:
    """Whether an output is being put into its place."""
    return _depth > 0


def abandon() -> list[Path]:
    """Removes unfinished outputs and returns the finished ones, in a process that is about to end without unwinding.

    No output can be begun or placed after that.
    """
    _PLACING.acquire()
    for temporary in list(_unfinished):
        _remove(temporary)
    return _placed


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to `path` by renaming a finished neighbour; a device or a pipe is written to directly.

    Raises OutputError.
    """
    try:
        if is_special(path):
            path.write_bytes(data)
            return
        with beside(path) as temporary:
            with temporary.open("xb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            with placing(path):
                os.replace(temporary, path)
    except OSError as e:
        raise OutputError(f"cannot write {path}: {e.strerror or e}; choose a writable place") from e


def is_special(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device."""
    return path.exists() and not (path.is_file() or path.is_dir())


def check_output(path: Path, option: str = "-o") -> None:
    """Raises InputError if nothing can be written to `path`, which `option` named, before the long work starts."""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a directory: give a file name with {option}")
        if is_special(path):
            return
    except OSError as e:  # a name that is too long, or in a directory without access
        raise InputError(f"cannot write {path}: {e.strerror or e}; choose another place with {option}") from e
    check_directory(path.parent, option)


def check_directory(directory: Path, option: str = "") -> None:
    """Raises InputError if nothing can be made in a directory, which `option` named."""
    remedy = f"choose another place{option and f' with {option}'}"
    try:
        if file := next((p for p in (directory, *directory.parents) if p.exists() and not p.is_dir()), None):
            raise InputError(f"{file} is no directory: {remedy}")
        if not directory.is_dir():
            raise InputError(f"the directory {directory} does not exist: make it first or {remedy}")
        with beside(directory / "eqsat") as temporary, temporary.open("xb"):
            pass
    except OSError as e:
        raise InputError(f"cannot write to {directory}: {e.strerror or e}; {remedy}") from e


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Raises InputError as `check_output` and `check_distinct` do, for outputs by the options that name them."""
    for option, path in outputs.items():
        if path is not None:
            check_output(path, option)
    check_distinct(outputs, inputs)


def check_distinct(outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Raises InputError if an output would replace another one or an input.

    outputs: by the options that name them; a directory is replaced as a whole; None: not asked for.
    inputs: files, or directories that are read as a whole.
    """
    taken = [(_real(path), f"the input {path}") for path in inputs]
    for option, path in outputs.items():
        if path is None or is_special(path):
            continue
        real = _real(path)
        for other, what in taken:
            if real.is_relative_to(other) or other.is_relative_to(real):
                raise InputError(f"{path} ({option}) and {what} would be in one place: choose another one")
        taken.append((real, f"{path} ({option})"))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def check_input(path: Path) -> None:
    """Raises InputError for an input that is no file, or that cannot be reached."""
    try:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        if path.is_dir():
            raise InputError(f"{path} is a directory: give a file")
    except OSError as e:
        raise InputError(f"cannot read {path}: {e.strerror or e}") from e


def ensure_directory(path: Path, option: str, error: type[InputError] = InputError) -> None:
    """Makes a directory, with those above it, unless it is there. Raises `error`, which names the option."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise error(f"cannot make {path}: {e.strerror or e}; choose a writable place with {option}") from e


def is_file_name(name: object) -> bool:
    """Whether a name that was read from a file is that of a file in one directory."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set("/\\\0") & set(name)


def read_bytes(path: Path) -> bytes:
    """Returns the content of a file. Raises InputError."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as e:  # ValueError: a name that no file can have
        raise InputError(f"cannot read {path}: {getattr(e, 'strerror', None) or e}") from e


# Temporary directories, named after their process; the next process that makes one removes those of dead processes.

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
