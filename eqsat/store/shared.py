"""A store that a team shares: a folder, an HTTP server or a bucket that fsspec reaches.

An entry is a file `KIND/NAME` that is written once: a checksum of name and bytes, and the bytes.
Nothing is listed or locked, and damaged entries are ignored.
A store that fails once is not used again by this process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from eqsat.ground.files import write_atomically
from eqsat.store.local import LARGEST, MARK, is_valid, mark

#: The first bytes of an entry; they change with the format.
_HEAD = b"eqsat 1\n"
#: Seconds for one entry, after which the store counts as unreachable.
_SECONDS = 20.0

T = TypeVar("T")


class SharedStore:
    """Entries by name at a URL.

    failure: why the store is not used any more, "" while it is.
    """

    def __init__(self, url: str, read_only: bool) -> None:
        self.url, self.read_only, self.failure = url.rstrip("/"), read_only, ""
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | None:
        """Returns the bytes of an entry, None if it does not exist or is damaged."""
        raw = self._attempt(lambda: self._read(name))
        if raw is None or not raw.startswith(_HEAD):
            return None
        checksum, value = raw[len(_HEAD) : len(_HEAD) + MARK], raw[len(_HEAD) + MARK :]
        return value if is_valid(name, value, checksum) else None

    def put(self, name: str, value: bytes) -> None:
        """Writes an entry, unless the store is only read."""
        if not self.read_only and len(value) <= LARGEST:
            self._attempt(lambda: self._write(name, _HEAD + mark(name, value) + value))

    def _read(self, name: str) -> bytes | None:
        fs, path = self._file(name)
        # block_size 0 is one request, without another one for the size before
        streamed = {"block_size": 0} if "http" in fs.protocol else {}
        parts, left = [], len(_HEAD) + MARK + LARGEST
        try:
            with fs.open(path, "rb", **streamed) as f:
                while left >= 0 and (part := f.read(min(left + 1, 1 << 20))):
                    parts.append(part)
                    left -= len(part)
        except (FileNotFoundError, IsADirectoryError):
            return None
        return b"".join(parts) if left >= 0 else None

    def _write(self, name: str, data: bytes) -> None:
        fs, path = self._file(name)
        if "file" in fs.protocol:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), data)
        else:
            fs.pipe_file(path, data)

    def _file(self, name: str) -> tuple[Any, str]:
        import fsspec

        fs, path = fsspec.core.url_to_fs(f"{self.url}/{name}")
        return fs, str(path)

    def _attempt(self, work: Callable[[], T]) -> T | None:
        """Returns the result of work that may fail or never end; None, with a `failure`, if it does."""
        if self.failure:
            return None
        done: list[T] = []
        failed: list[str] = []

        def run() -> None:
            try:
                done.append(work())
            except Exception as e:  # noqa: BLE001 - every protocol has its own errors; a failure may cost only time
                failed.append(f"{type(e).__name__}: {e}".splitlines()[0])

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_SECONDS)
        if done:
            return done[0]
        with self._lock:
            self.failure = self.failure or (failed[0] if failed else f"no answer within {_SECONDS:.0f} s")
        return None


@cache
def get_shared_store(url: str, read_only: bool) -> SharedStore:
    """Returns the one SharedStore of this process for a URL."""
    return SharedStore(url, read_only)
