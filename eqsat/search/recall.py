"""Answers of earlier searches for a graph (`answer_store.py`).

If nothing that decides the answer has changed, the answer itself is reused.
Otherwise the known graphs are candidates.
So more effort, another option or another version never gives a worse answer than was known, within its limits.
A graph may differ from a known one in constants alone, such as an architecture with other weights.
Then the known choice is written with its constants.
If that gains as much as before, there is no search.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from eqsat.choice.compiled import Compiled
from eqsat.choice.respelling import is_ordered, respelled, structure, told
from eqsat.egraph.encoding import Frozen
from eqsat.ground.digest import digest
from eqsat.ground.versions import code, versions
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
from eqsat.verification.judging import BinaryProof

#: Highest cycles that a respelled choice may take, or share of the cycles before, as multiples of the known ones.
#: Cycles before and after depend differently on how well the weights can be compressed.
_AS_GOOD = 1.003
#: Other projects' packages that decide an answer.
_THEIRS = ("egglog", "ethos-u-vela", "tosa-tools", "clingo", "numpy")


@dataclass(frozen=True, slots=True)
class Memory:
    """The known answers for one graph.

    graph: the digest of the graph.
    structure: the digest of its structure without constants.
    key: the digest of the search.
    known: the answers, by key.
    alike: the answer of an equal search for a graph of equal structure.
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
        """Returns what is remembered of a graph.

        door: further decisions of the caller, as an object whose `repr` tells them.
        """
        compiled_for = [*(f.encode() for f in target.flags), *_configurations(target)]
        graph, alike = digest([explicit, *compiled_for]), digest([structure(reference).encode(), *compiled_for])
        own = options.rules or plugins.places(options)
        parts = [repr(options.record()), repr(container), repr(door), repr(versions(_THEIRS)), code()]
        key = "" if own else digest(p.encode() for p in parts)
        known = store.entries(graph, key)
        return Memory(store, graph, alike, key, known, None if key in known else store.entries(alike, key).get(key))

    @property
    def answer(self) -> KnownAnswer | None:
        """The answer of the very same search."""
        return self.known.get(self.key)

    def candidates(self, search: Search) -> list[Compiled]:
        """Compiles the known graphs with the present Vela.

        Only the answer's graph is compiled if the very same search is known.
        """
        answers = [self.answer] if self.answer else list(self.known.values())
        target = search.target
        allowed = (a for a in answers if a.tosa and all(may_choose(s, target) for s in a.settings))
        by_graph = {(a.tosa, a.settings): a for a in allowed}
        again = (compiled_again(a.tosa, a.settings, search, a.given) for a in by_graph.values())
        return [c for c in again if c]

    def holds(self, given: Given, candidates: list[Compiled], checks: Checks) -> bool:
        """Whether the known answer of the very same search still holds.

        It has to have the same figures, equal the reference and have a binary that is not wrong.
        """
        answer = self.answer
        if answer is None:
            return False
        best = candidates[0] if candidates else given.compiled.get(answer.chosen)
        if best is None or best.figures.costs != (answer.cycles, answer.sram, answer.flash):
            return False
        return _is_right(best, checks, answer)

    def respelled(self, search: Search, exact: Frozen) -> list[Compiled]:
        """Returns the choice of an equal search for a graph of equal structure, with this graph's constants.

        It is compiled without further settings, and with the settings of Vela that it had.
        Returns none if the e-graphs differ in what is chosen.
        """
        known = self.alike
        if known is None or not known.choice:
            return []
        graph = respelled(known.choice, exact, search.target.family)
        if graph is None:
            return []
        buffer, out = dumps(graph), []
        for settings in dict.fromkeys(((), known.settings)):
            if all(may_choose(s, search.target) for s in settings) and (by_vela := search.compiled(buffer, settings)):
                out.append(Compiled("eqsat", graph, buffer, by_vela, settings=settings))
        return out

    def in_order(self, search: Search, found: Sequence[Compiled], decision: Decision) -> list[Compiled]:
        """Returns respelled graphs, also in other orders if the known one had another order."""
        by_tosa: dict[bytes, Compiled | None] = {c.tosa: c for c in found if not c.settings}
        if self.alike and self.alike.ordered:
            in_orders(search, by_tosa, decision)
        return [*found, *(c for c in by_tosa.values() if c and c not in found)]

    def gains_as_before(self, given: Given, found: Sequence[Compiled], decision: Decision, checks: Checks) -> bool:
        """Whether the best respelled graph that fits gains as much as the known one, and is verified."""
        known = self.alike
        fitting = [c for c in found if decision.limits.fits(c.figures)]
        if known is None or not known.before or not fitting:
            return False
        best = min(fitting, key=lambda c: decision.rank(c.figures))
        share = max(1.0, _before(given) / known.before)
        if best.figures.cycles > _AS_GOOD * known.cycles * share:
            return False
        return _is_right(best, checks, known)

    def entries(self, answer: Answer, tosa: bytes, exact: Frozen | None, given: Given) -> list[tuple[str, KnownAnswer]]:
        """Returns what is to be kept of the answer of a search, each with the digest that it is kept for.

        That is its graph with locations, and its choice from the exact e-graph.
        """
        best, figures = answer.best, answer.best.figures
        if not self.key or not answer.verified or answer.binary.equal is False:
            return []
        known = KnownAnswer(best.name, best.given, *figures.costs, best.settings, tosa if best.name == "eqsat" else b"")
        choice = exact and told(best, exact)
        if not choice:
            return [(self.graph, known)]
        spelled = replace(known, tosa=b"", choice=choice, before=_before(given), ordered=is_ordered(best))
        return [(self.graph, known), (self.structure, spelled)]

    def keep(self, entries: Sequence[tuple[str, KnownAnswer]], proof: BinaryProof) -> None:
        """Stores the entries of an answer. proof: of its binary."""
        for place, known in entries:
            self.store.put(place, self.key, replace(known, undecided=proof.is_final and not proof.proved))


def _is_right(best: Compiled, checks: Checks, known: KnownAnswer) -> bool:
    """Whether a graph equals the reference, and its binary is not wrong.

    Its binary is proved beside the comparison, unless that of the known answer could not be.
    """
    checks.begin_answer(best, known.undecided)
    found = checks.compared(best)
    return found is not None and found.binary.equal is not False


def _before(given: Given) -> int:
    """Returns the cycles of the best given graph, or 0 if Vela refuses all of them."""
    return min((c.figures.cycles for c in given.compiled.values()), default=0)


def compiled_again(tosa: bytes, settings: tuple[str, ...], search: Search, given: str = "") -> Compiled | None:
    """Compiles the answer of another search; returns None if it cannot be read or Vela refuses it.

    given: see `Compiled`.
    """
    try:
        graph = loads(tosa, "the answer of another search")
    except TosaError:
        return None
    estimate = search.compiled(tosa, settings)
    return None if estimate is None else Compiled("eqsat", graph, tosa, estimate, given=given, settings=settings)


def _configurations(target: Target) -> list[bytes]:
    """Returns the contents of the files that flags name."""
    out = []
    for flag in target.flags:
        with suppress(OSError, ValueError):
            out.append(Path(flag.partition("=")[2]).read_bytes())
    return out
