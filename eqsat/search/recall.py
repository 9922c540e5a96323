"""What earlier searches answered for a graph (`answer_store.py`): the very answer where nothing that decides it has
changed, else graphs to compare with.

So more effort, another option or another version never answers worse than what was known, as far as that fits its
limits.
For a graph that differs from a known one in constants alone, as the same architecture with other weights does, the
known choice is spelled with its constants; where that gains as much as it did there, there is no search either.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from eqsat.choice.compiled import Compiled
from eqsat.choice.respelling import digest, is_ordered, respelled, structure, told
from eqsat.egraph.encoding import Frozen
from eqsat.ground.versions import versions
from eqsat.options import plugins
from eqsat.options.decision import Container, Decision
from eqsat.options.options import Options
from eqsat.search.answer_store import AnswerStore, KnownAnswer
from eqsat.search.given import Given
from eqsat.search.order_rounds import in_orders
from eqsat.search.search import Search
from eqsat.search.setting_rounds import may_choose
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, dumps, loads
from eqsat.verification.checks import Answer, Checks

#: A respelled choice gains as much as it did where it takes so many times as large a share of the cycles at most.
_AS_GOOD = 1.003
_ROOT = Path(__file__).parent.parent.parent
#: Our packages, and those of others, that decide an answer.
_OURS = ("eqsat", "extraction", "cost_models")
_THEIRS = ("egglog", "ethos-u-vela", "tosa-tools", "highspy", "clingo", "ortools", "numpy")


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of one graph.

    graph, structure, key: what the store calls it, its structure without constants, and the search. known: by key;
    alike: the answer of the same search for a graph of the same structure.
    """

    store: AnswerStore
    graph: str
    structure: str
    key: str
    known: dict[str, KnownAnswer] = field(default_factory=dict)
    alike: KnownAnswer | None = None

    @staticmethod
    def of(
        store: AnswerStore,
        explicit: bytes,
        reference: TensorGraph,
        target: Target,
        options: Options,
        container: Container,
        door: object,
    ) -> Memory:
        """door: what else the caller decides, as a text says it."""
        compiled_for = [*(f.encode() for f in target.flags), *_configurations(target)]
        graph, alike = digest([explicit, *compiled_for]), digest([structure(reference).encode(), *compiled_for])
        own = options.rules or plugins.places(options)
        parts = [repr(options.record()), repr(container), repr(door), repr(versions(_THEIRS)), _code()]
        key = "" if own else digest(p.encode() for p in parts)
        known = store.entries(graph, key)
        return Memory(store, graph, alike, key, known, None if key in known else store.entries(alike, key).get(key))

    @property
    def answer(self) -> KnownAnswer | None:
        """Of the very same search."""
        return self.known.get(self.key)

    def candidates(self, search: Search) -> list[Compiled]:
        """The graphs that are known, as Vela compiles them now; none of a search that was the same, but the
        answer's."""
        answers = [self.answer] if self.answer else list(self.known.values())
        target = search.target
        allowed = (a for a in answers if a.tosa and all(may_choose(s, target) for s in a.settings))
        by_graph = {(a.tosa, a.settings): a for a in allowed}
        return [c for a in by_graph.values() if (c := _compiled(a, search))]

    def holds(self, given: Given, candidates: list[Compiled], checks: Checks) -> bool:
        """Whether the answer of the same search is there with the figures that it had, equal to the reference, and
        compiled rightly."""
        answer = self.answer
        if answer is None:
            return False
        best = candidates[0] if candidates else given.compiled.get(answer.chosen)
        if best is None or best.figures[:3] != (answer.cycles, answer.sram, answer.flash):
            return False
        found = checks.compared(best)
        return found is not None and found.binary.equal is not False

    def respelled(self, search: Search, exact: Frozen) -> list[Compiled]:
        """The choice of a search for a graph of the same structure, with the constants of this one: as it is, and in
        the settings of Vela that it had; none where the e-graph is another one."""
        known = self.alike
        if known is None or not known.choice:
            return []
        graph = respelled(known.choice, exact, search.target.family)
        if graph is None:
            return []
        buffer, out = dumps(graph), []
        for settings in dict.fromkeys(((), known.settings)):
            if all(may_choose(s, search.target) for s in settings) and (by_vela := search.compiled(buffer, settings)):
                out.append(Compiled("eqsat", graph, buffer, *by_vela[:1], judged=by_vela[1], settings=settings))
        return out

    def in_order(self, search: Search, found: Sequence[Compiled], decision: Decision) -> list[Compiled]:
        """Respelled graphs, ordered anew where the known one had an order of its own."""
        by_tosa: dict[bytes, Compiled | None] = {c.tosa: c for c in found if not c.settings}
        if self.alike and self.alike.ordered:
            in_orders(search, by_tosa, decision)
        return [*found, *(c for c in by_tosa.values() if c and c not in found)]

    def gains_as_before(self, given: Given, found: Sequence[Compiled], decision: Decision, checks: Checks) -> bool:
        """Whether one of the respelled graphs fits, gains as much as there, and is equal and compiled rightly."""
        known = self.alike
        fitting = [c for c in found if decision.limits.fits(c.figures)]
        if known is None or not known.before or not fitting:
            return False
        best = min(fitting, key=lambda c: decision.rank(c.figures))
        before = min(c.figures.cycles for c in given.compiled.values())
        if best.figures.cycles * known.before > _AS_GOOD * known.cycles * before:
            return False
        compared = checks.compared(best)
        return compared is not None and compared.binary.equal is not False

    def keep(self, answer: Answer, tosa: bytes, exact: Frozen | None, given: Given) -> None:
        """Remembers the answer of a search: its graph with locations and, of the exact e-graph, its choice."""
        best, figures = answer.best, answer.best.figures
        if self.key and answer.verified and answer.binary.equal is not False and not best.tolerant:
            own = tosa if best.name == "eqsat" else b""
            kept = KnownAnswer(best.name, best.given, figures.cycles, figures.sram, figures.flash, best.settings, own)
            self.store.put(self.graph, self.key, kept)
            if exact and (choice := told(best, exact)):
                before = min(c.figures.cycles for c in given.compiled.values())
                self.store.put(
                    self.structure,
                    self.key,
                    replace(kept, tosa=b"", choice=choice, before=before, ordered=is_ordered(best)),
                )


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
    return digest(part for f in files for part in (str(f.relative_to(_ROOT)).encode(), f.read_bytes()))
