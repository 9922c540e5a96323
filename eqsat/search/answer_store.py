"""Answers of earlier searches in the store (`eqsat/store`), by graph and search.

They are compiled, compared with the reference and run like every candidate.
So a wrong entry costs time, but never gives a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from msgspec import ValidationError, convert, to_builtins

from eqsat.ground.packed import pack_json, unpack_json
from eqsat.store.setting import Setting
from eqsat.store.store import ANSWERS, Store

#: Most entries per graph.
_OF_A_GRAPH = 4


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The answer of an earlier search.

    chosen: "eqsat", "stock" or "explicit".
    given: "explicit" or "stock" if it is that graph in another order or with other settings.
    cycles: by the total that ranks graphs.
    settings: of Vela.
    tosa: the graph, b"" if it is a given one unchanged.
    choice: the choice from the e-graph (`eqsat/choice/respelling.py`), "" if that is not kept.
    before: cycles of the best given graph at that time.
    rewritten: whether the graph was changed after it was written as it was chosen.
    undecided: whether the proof of its binary ended without a result, as another one would.
    """

    chosen: str
    given: str
    cycles: int
    settings: tuple[str, ...]
    tosa: bytes
    choice: str = ""
    before: int = 0
    rewritten: bool = False
    undecided: bool = False

    def packed(self) -> bytes:
        """Returns the bytes of an entry."""
        return pack_json(to_builtins(self))

    @staticmethod
    def unpacked(data: bytes) -> KnownAnswer:
        """Returns the answer of an entry.

        Raises ValueError if the bytes are not those of an entry.
        """
        told = unpack_json(data)
        try:
            answer = convert(told, KnownAnswer)
        except ValidationError as e:
            raise ValueError(str(e)) from e
        if unknown := told.keys() - {f.name for f in fields(KnownAnswer)}:
            raise ValueError(f"it has {', '.join(unknown)}")
        return answer


class AnswerStore:
    """Answers by graph and key, both hexadecimal digits.

    A failure of the store only means that nothing is remembered.
    """

    def __init__(self, place: str | Path | None = None) -> None:
        """place: of the store, see `eqsat/store/setting.py`; None is the user's store.

        Raises InputError if the place is something else than a store.
        """
        self.place = place
        self.warnings: list[str] = []
        if place:
            Setting.of(place).check()

    @contextmanager
    def _opened(self) -> Iterator[Store]:
        store = Store(self.place)
        try:
            yield store
        finally:
            self.warnings = store.warnings
            store.close()

    def entries(self, graph: str, key: str = "") -> dict[str, KnownAnswer]:
        """Returns this machine's answers for a graph, by key.

        The answer with the given key may also come from a team's store.
        """
        found: dict[str, KnownAnswer] = {}
        with self._opened() as store:
            if key:
                store.get(ANSWERS, [f"{graph}/{key}"])  # this machine has it from now on
            known = store.family(ANSWERS, f"{graph}/")
        for name, raw in known.items():
            with suppress(ValueError):
                found[name] = KnownAnswer.unpacked(raw)
        return found

    def put(self, graph: str, key: str, answer: KnownAnswer) -> None:
        """Stores an answer."""
        with self._opened() as store:
            store.put(ANSWERS, {f"{graph}/{key}": answer.packed()})
            store.keep(ANSWERS, f"{graph}/", _OF_A_GRAPH)
