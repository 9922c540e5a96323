"""Reading what users name, writing what they asked for: named errors, and outputs that are whole or absent."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class InputError(ValueError):
    """Bad input; the message names it and the remedy, on one line."""


class PluginError(InputError):
    """A cost model, an extractor, a function of a rule or a module with one of them that is the user's own failed: the
    message says which, where and how, and the cause is what it raised, if it raised."""


class OutputError(InputError):
    """What was asked for cannot be written, such as to a full disk; the message names the place."""


#: Held by whoever begins something beside an output or puts it into its place, and for good by `abandon`.
_PLACING = threading.RLock()
_unfinished: set[Path] = set()
_placed: list[Path] = []
_depth = 0


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new name in the directory of `path`, for what is to replace it; what has this name at the end is removed."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    with _PLACING:
        _unfinished.add(temporary)
    try:
        yield temporary
    finally:
        _remove(temporary)
        _unfinished.discard(temporary)


@contextmanager
def placing(path: Path) -> Iterator[None]:
    """In here `path` is replaced by what was made beside it; `abandon` waits until it is."""
    global _depth
    with _PLACING:
        _depth += 1
        try:
            yield
            _placed.append(path)
        finally:
            _depth -= 1


def is_placing() -> bool:
    """Whether something is just being put in its place."""
    return _depth > 0


def abandon() -> list[Path]:
    """Removes what is unfinished, lets nobody begin or place anything from now on, and says what was placed. For a
    process that is about to end without unwinding."""
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
    """Writes `data` to `path` by renaming a finished neighbour: an old file stays whole until then. A device or a pipe,
    such as /dev/null, is written to as it is. Raises OutputError."""
    try:
        if _is_special(path):
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
        raise OutputError(f"cannot write {path}: {e.strerror or e}; choose a writable place with -o") from e


def _is_special(path: Path) -> bool:
    """Whether it is there and no file, which a new file would replace."""
    return path.exists() and not path.is_file()


def check_output(path: Path) -> None:
    """Refuses an output place before the long work starts: nothing could be begun beside it. Raises InputError."""
    if path.is_dir():
        raise InputError(f"{path} is a directory: give a file name with -o")
    if _is_special(path):
        return
    check_directory(path.parent, "-o")


def check_directory(directory: Path, option: str = "") -> None:
    """Refuses a directory in which nothing can be made; option: what it was given with. Raises InputError."""
    remedy = f"choose another place{option and f' with {option}'}"
    if not directory.is_dir():
        raise InputError(f"the directory {directory} does not exist: make it first or {remedy}")
    try:
        with beside(directory / "eqsat") as temporary, temporary.open("xb"):
            pass
    except OSError as e:
        raise InputError(f"cannot write to {directory}: {e.strerror or e}; {remedy}") from e


def is_file_name(name: object) -> bool:
    """Whether a name that comes out of a file is that of a file in one directory."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set("/\\\0") & set(name)


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as e:  # ValueError: a name that no file can have
        raise InputError(f"cannot read {path}: {getattr(e, 'strerror', None) or e}") from e
