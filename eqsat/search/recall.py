"""What earlier searches answered for a graph (`answer_store.py`): the very answer where nothing that decides it has changed, else graphs to compare with.

So more effort, another option or another version never answers worse than what was known, as far as that fits its limits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from eqsat.choice.compiled import Compiled
from eqsat.options import plugins
from eqsat.options.decision import Container
from eqsat.options.options import Options
from eqsat.search.answer_store import AnswerStore, KnownAnswer
from eqsat.search.given import Given
from eqsat.search.search import Search
from eqsat.search.setting_rounds import may_choose
from eqsat.target import Target
from eqsat.tosa.flatbuffer import TosaError, loads
from eqsat.verification.checks import Answer, Checks
from eqsat.versions import versions

_ROOT = Path(__file__).parent.parent.parent
#: Our packages, and those of others, that decide an answer.
_OURS = ("eqsat", "extraction", "cost_models")
_THEIRS = ("egglog", "ethos-u-vela", "tosa-tools", "highspy", "clingo", "ortools", "numpy")


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of one graph.

    graph, key: what the store calls it and the search. known: by key.
    """

    store: AnswerStore
    graph: str
    key: str
    known: dict[str, KnownAnswer] = field(default_factory=dict)

    @staticmethod
    def of(
        store: AnswerStore, explicit: bytes, target: Target, options: Options, container: Container, door: object
    ) -> Memory:
        """door: what else the caller decides, as a text says it."""
        graph = _digest([explicit, *(f.encode() for f in target.flags), *_configurations(target)])
        own = options.rules or plugins.places(options)
        parts = [repr(options.record()), repr(container), repr(door), repr(versions(_THEIRS)), _code()]
        key = "" if own else _digest(p.encode() for p in parts)
        return Memory(store, graph, key, store.entries(graph))

    @property
    def answer(self) -> KnownAnswer | None:
        """Of the very same search."""
        return self.known.get(self.key)

    def candidates(self, search: Search) -> list[Compiled]:
        """The graphs that are known, as Vela compiles them now; none of a search that was the same, but the answer's."""
        answers = [self.answer] if self.answer else list(self.known.values())
        target = search.target
        allowed = (a for a in answers if a.tosa and all(may_choose(s, target) for s in a.settings))
        by_graph = {(a.tosa, a.settings): a for a in allowed}
        return [c for a in by_graph.values() if (c := _compiled(a, search))]

    def holds(self, given: Given, candidates: list[Compiled], checks: Checks) -> bool:
        """Whether the answer of the same search is there with the figures that it had, equal to the reference, and compiled rightly."""
        answer = self.answer
        if answer is None:
            return False
        best = candidates[0] if candidates else given.compiled.get(answer.chosen)
        if best is None or best.figures[:3] != (answer.cycles, answer.sram, answer.flash):
            return False
        found = checks.compared(best)
        if found is None or found.binary.equal is False:
            return False
        self.store.used(self.graph, self.key)
        return True

    def keep(self, answer: Answer, tosa: bytes) -> None:
        """Remembers the answer of a search, and its graph with locations."""
        best, figures = answer.best, answer.best.figures
        if self.key and answer.verified and answer.binary.equal is not False and not best.tolerant:
            own = tosa if best.name == "eqsat" else b""
            kept = KnownAnswer(best.name, best.given, figures.cycles, figures.sram, figures.flash, best.settings, own)
            self.store.put(self.graph, self.key, kept)


def _compiled(answer: KnownAnswer, search: Search) -> Compiled | None:
    try:
        graph = loads(answer.tosa, "a remembered graph")
    except TosaError:
        return None
    found = search.compiled(answer.tosa, answer.settings)
    if found is None:
        return None
    estimate, judged = found
    return Compiled("eqsat", graph, answer.tosa, estimate, judged=judged, given=answer.given, settings=answer.settings)


def _configurations(target: Target) -> list[bytes]:
    """What is in files that flags name."""
    out = []
    for flag in target.flags:
        with suppress(OSError, ValueError):
            out.append(Path(flag.partition("=")[2]).read_bytes())
    return out


@cache
def _code() -> str:
    """Of all our own code."""
    files = sorted(f for package in _OURS for f in (_ROOT / package).rglob("*.py"))
    return _digest(part for f in files for part in (str(f.relative_to(_ROOT)).encode(), f.read_bytes()))


def _digest(parts: Iterable[bytes]) -> str:
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "little") + part)
    return h.hexdigest()[:32]
