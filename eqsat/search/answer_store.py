"""Answers of earlier searches on disk, a file each, in a directory for each graph and target.

Entries are data and never code, with a checksum: one that was damaged is dropped when it is read. What they say is
compiled, compared with the reference and run as every candidate is, so that a wrong entry costs time and never a
result. Beyond its limit the store forgets what was not used for the longest time.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cost_models.cache import default_path
from eqsat.files import OutputError, write_atomically

#: Bytes on disk of all entries, at most, and how many a graph has.
_LIMIT, _OF_A_GRAPH = 256 << 20, 4
#: Bytes of one entry when it is read, packed and unpacked: beyond these it is none of ours.
_PACKED, _UNPACKED = 64 << 20, 512 << 20
#: Bytes of the checksum that an entry begins with.
_MARK = 16
#: How entries are called.
_SUFFIX = ".answer"


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """What an earlier search answered.

    chosen: "eqsat", "stock" or "explicit"; given: "explicit" or "stock", where it is that graph in another order or
    with other settings.
    cycles, sram, flash: its figures. settings: of Vela. tosa: the graph, b"" for a given one as it was.
    choice: what was chosen from the e-graph (`eqsat/choice/respelling.py`), "" where that is not kept; before:
    corrected cycles of the best given graph then; ordered: the graph ran in another order than that choice is written
    in.
    """

    chosen: str
    given: str
    cycles: int
    sram: int
    flash: int
    settings: tuple[str, ...]
    tosa: bytes
    choice: str = ""
    before: int = 0
    ordered: bool = False

    def packed(self) -> bytes:
        """The bytes of a file."""
        figures = self.cycles, self.sram, self.flash, self.before
        header = json.dumps([self.chosen, self.given, figures, self.settings, self.choice, self.ordered])
        payload = zlib.compress(header.encode() + b"\n" + self.tosa, 1)
        return _mark(payload) + payload

    @staticmethod
    def unpacked(data: bytes) -> KnownAnswer:
        """Raises ValueError where the bytes are none of an entry."""
        mark, payload = data[:_MARK], data[_MARK:]
        if mark != _mark(payload):
            raise ValueError("its checksum is wrong")
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(payload, _UNPACKED)
        except zlib.error as e:
            raise ValueError(str(e)) from e
        header, _, tosa = content.partition(b"\n")
        try:
            chosen, given, figures, settings, choice, ordered = json.loads(header)
            cycles, sram, flash, before = map(int, figures)
            is_known = unpacking.eof and all(isinstance(s, str) for s in (chosen, given, choice, *settings))
            answer = KnownAnswer(
                chosen, given, cycles, sram, flash, tuple(settings), tosa, choice, before, bool(ordered)
            )
        except (TypeError, OverflowError, RecursionError) as e:
            raise ValueError(str(e)) from e
        if not is_known:
            raise ValueError("it is too large, or has another form")
        return answer


def _mark(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_MARK).digest()


class AnswerStore:
    """Answers by graph and key, both of hexadecimal digits. Any failure of the disk costs only what would be
    remembered."""

    def __init__(self, prices: str | Path | None = None) -> None:
        """prices: the file of prices beside which the answers are; None: the user's."""
        path = Path(prices) if prices else default_path()
        self.directory = path.with_suffix(".answers")

    def entries(self, graph: str) -> dict[str, KnownAnswer]:
        """All answers for a graph, by key, the last used one first."""
        found: dict[str, KnownAnswer] = {}
        for path in _by_use((self.directory / graph).glob(f"*{_SUFFIX}")):
            try:
                if path.stat().st_size > _PACKED:
                    raise ValueError("it is too large")
                found[path.stem] = KnownAnswer.unpacked(path.read_bytes())
            except ValueError:
                with suppress(OSError):
                    path.unlink()
            except OSError:
                continue
        return found

    def used(self, graph: str, key: str) -> None:
        """Notes that an entry was of use."""
        with suppress(OSError):
            self._file(graph, key).touch()

    def put(self, graph: str, key: str, answer: KnownAnswer) -> None:
        """Remembers an answer."""
        path = self._file(graph, key)
        with suppress(OSError, OutputError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, answer.packed())
            for old in _by_use(path.parent.glob(f"*{_SUFFIX}"))[_OF_A_GRAPH:]:
                old.unlink(missing_ok=True)
            self._forget()

    def size(self) -> tuple[int, int]:
        """(answers, their bytes on disk)."""
        sizes = _sizes(self.directory.glob(f"*/*{_SUFFIX}"))
        return len(sizes), sum(sizes.values())

    def clear(self) -> int:
        """Forgets everything; how many answers there were."""
        found = list(self.directory.glob(f"*/*{_SUFFIX}"))
        for path in found:
            with suppress(OSError):
                path.unlink()
        return len(found)

    def _file(self, graph: str, key: str) -> Path:
        return self.directory / graph / f"{key}{_SUFFIX}"

    def _forget(self) -> None:
        sizes = _sizes(self.directory.glob(f"*/*{_SUFFIX}"))
        total = sum(sizes.values())
        for path in reversed(_by_use(sizes)) if total > _LIMIT else ():
            if total > _LIMIT:
                path.unlink(missing_ok=True)
                total -= sizes[path]


def _by_use(paths: Iterator[Path] | Mapping[Path, int]) -> list[Path]:
    """Files, the last used one first."""
    times: dict[Path, int] = {}
    for path in paths:
        with suppress(OSError):
            times[path] = path.stat().st_mtime_ns
    return sorted(times, key=lambda path: (-times[path], path.name))


def _sizes(paths: Iterator[Path]) -> dict[Path, int]:
    out: dict[Path, int] = {}
    for path in paths:
        with suppress(OSError):
            out[path] = path.stat().st_size
    return out
