"""Answers of earlier searches for a graph (`answer_store.py`).

If nothing that decides the answer has changed, the answer itself is reused.
Otherwise the known graphs are candidates.
So more effort, another option or another version never gives a worse answer than was known, within its limits.
A graph may differ from a known one in constants alone, such as an architecture with other weights.
Then the known choice is written with its constants.
If that gains as much as before, there is no search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from eqsat.choice.compiled import Compiled
from eqsat.choice.respelling import structure, told
from eqsat.egraph.encoding import Frozen
from eqsat.ground.digest import digest
from eqsat.ground.versions import code, versions
from eqsat.options import plugins
from eqsat.options.decision import Container
from eqsat.options.options import Options
from eqsat.search.answer_store import AnswerStore, KnownAnswer
from eqsat.search.given import Coming, Given
from eqsat.search.loop import Loop
from eqsat.search.proposals.remembered import same_graph, same_structure
from eqsat.search.stages import REWRITINGS
from eqsat.search.state import State
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.verification.checks import Answer, Checks
from eqsat.verification.equality import Attempt

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

    @property
    def answers(self) -> list[KnownAnswer]:
        """The known answers that are candidates: only that of the very same search if there is one."""
        return [self.answer] if self.answer else list(self.known.values())

    def holds(self, given: Given, candidates: Sequence[Compiled], checks: Checks) -> bool:
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

    def gains_as_before(self, state: State, is_respelled: Callable[[Compiled], bool], checks: Checks) -> bool:
        """Whether the best respelled graph that fits gains as much as the known one, and is verified."""
        known, decision = self.alike, state.decision
        fitting = [c for c in state.graphs if is_respelled(c) and decision.limits.fits(c.figures)]
        if known is None or not known.before or not fitting:
            return False
        best = min(fitting, key=decision.rank_of)
        share = max(1.0, _before(state.graphs) / known.before)
        if best.figures.cycles > _AS_GOOD * known.cycles * share:
            return False
        return _is_right(best, checks, known)

    def entries(
        self, answer: Answer, tosa: bytes, exact: Frozen | None, graphs: Sequence[Compiled]
    ) -> list[tuple[str, KnownAnswer]]:
        """Returns what is to be kept of the answer of a search, each with the digest that it is kept for.

        That is its graph with locations, and its choice from the exact e-graph.
        graphs: all that were compared.
        """
        best, figures = answer.best, answer.best.figures
        if not self.key or not answer.verified or answer.binary.equal is False:
            return []
        known = KnownAnswer(best.name, best.given, *figures.costs, best.settings, tosa if best.name == "eqsat" else b"")
        choice = exact and told(best, exact)
        if not choice:
            return [(self.graph, known)]
        spelled = replace(known, tosa=b"", choice=choice, before=_before(graphs), rewritten=best.is_rewritten)
        return [(self.graph, known), (self.structure, spelled)]

    def keep(self, entries: Sequence[tuple[str, KnownAnswer]], proof: Attempt) -> None:
        """Stores the entries of an answer. proof: of its binary."""
        for place, known in entries:
            self.store.put(place, self.key, replace(known, undecided=proof.is_final and not proof.proved))


def recalled(loop: Loop, state: State, memory: Memory, coming: Coming, checks: Checks) -> tuple[State, str]:
    """Returns the state with the known graphs, and "remembered" if the answer of the very same search still holds."""
    state = loop.drive(state, same_graph(memory.answers))
    if memory.answer is None:
        return state, ""
    for c in state.graphs:  # beside the given graphs, which Vela compiles
        checks.begin_answer(c, memory.answer.undecided)
    given = coming.given(loop)
    with loop.failing():
        return state, "remembered" if memory.holds(given, state.graphs, checks) else ""
    return state, ""


def respelled(loop: Loop, state: State, memory: Memory, exact: Frozen, checks: Checks) -> tuple[State, str]:
    """Returns the state with the choice for a graph of equal structure, and "respelled" if it gains as much.

    If the known graph was changed after it was written, so is this one.
    """
    before, known = set(state.compiled), memory.alike
    if known is None:
        return state, ""

    def is_new(c: Compiled) -> bool:
        return c.key not in before

    state = loop.drive(state, same_structure(known, exact))
    if known.rewritten:
        state = loop.improve(state, REWRITINGS, is_new)
    with loop.failing():
        return state, "respelled" if memory.gains_as_before(state, is_new, checks) else ""
    return state, ""


def _is_right(best: Compiled, checks: Checks, known: KnownAnswer) -> bool:
    """Whether a graph equals the reference, and its binary is not wrong.

    Its binary is proved beside the comparison, unless that of the known answer could not be.
    """
    checks.begin_answer(best, known.undecided)
    found = checks.compared(best)
    return found is not None and found.binary.equal is not False


def _before(graphs: Sequence[Compiled]) -> int:
    """Returns the cycles of the best given graph, or 0 if Vela refuses all of them."""
    return min((c.figures.cycles for c in graphs if c.name != "eqsat"), default=0)


def _configurations(target: Target) -> list[bytes]:
    """Returns the contents of the files that flags name."""
    out = []
    for flag in target.flags:
        with suppress(OSError, ValueError):
            out.append(Path(flag.partition("=")[2]).read_bytes())
    return out
