"""Answers of earlier searches for a graph.

If nothing that decides the answer has changed, the answer itself is reused. Otherwise the known graphs are candidates,
so more effort, another option or another version never gives a worse answer than was known, within its limits.
For a graph that differs from a known one in constants alone, such as an architecture with other weights, the known
choice is written with its constants; if that gains as much as before, there is no search.

Answers are compiled, compared with the reference and run like every candidate.
So a wrong entry costs time, but never gives a wrong result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

from msgspec import convert, to_builtins

from cost_models.calibration import get_spread
from eqsat.choice import respelling
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.egraph.encoding import Frozen
from eqsat.ground.digest import digest
from eqsat.ground.packed import pack_json, unpack_json
from eqsat.ground.process import WorkerError
from eqsat.ground.versions import code, versions
from eqsat.ground.worker import Pool
from eqsat.options.decision import Container, Decision
from eqsat.options.options import places
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import Ask, Asking, Proposal, State, Step
from eqsat.search.proposals.settings import may_choose
from eqsat.store.local import Setting
from eqsat.store.store import ANSWERS, Store
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import DTYPES
from eqsat.tosa.flatbuffer import TosaError, dumps, loads, tensor_names
from eqsat.verification.checks import Answer, Checks

logger = logging.getLogger(__name__)

#: Beginning of the warning about a given graph that Vela refuses, by name.
_REFUSED = {"explicit": "Vela refuses the explicit graph", "stock": "Vela refuses stock's graph"}


class StockError(Exception):
    """Stock ExecuTorch failed on a graph; the message says why."""


#: Stock's flatbuffer, or a function that returns it, which may block and may raise StockError.
Stock = bytes | Callable[[], bytes]


class Given:
    """The given graphs by name, "explicit" and "stock", read and compiled while the caller does something else.

    Stock's graph is compared with the explicit one meanwhile, and its binary is run.
    buffers: the flatbuffers as they were given.
    compiled: the graphs that Vela accepts.
    refused: Vela's error for the explicit graph.
    stock: stock's graph, also where it computes something else; then it is none of the graphs that compete.
    `join` fills them.
    """

    def __init__(
        self,
        explicit: bytes,
        stock: Stock | None,
        container: Container,
        oracle: Oracle,
        checks: Checks,
        pool: Pool,
    ) -> None:
        self.buffers = {"explicit": explicit}
        self.compiled: dict[str, Compiled] = {}
        self.refused: WorkerError | None = None
        self.stock: Compiled | None = None
        self._container, self._oracle, self._checks = container, oracle, checks
        self._pending = {"explicit": pool.start(self._compile, "explicit", explicit)}
        if stock is not None:
            self._pending["stock"] = pool.start(self._compile, "stock", stock)

    def join(self, loop: Loop, state: State) -> State:
        """Returns a state with the given graphs, and with the decision that their figures lead to.

        Waits until both are compiled, and stock's is compared on a few samples; failures become warnings.
        """
        if self._pending:
            with loop.clock.stage("given graphs"):
                self._wait(loop.warnings)
        before = self.compiled.get("stock") or self.compiled.get("explicit")
        figures, dedicated = (before.figures, before.estimate.dedicated) if before else (None, 0)
        decision = Decision.of(state.options, figures, self._container, dedicated, get_spread(state.target))
        return replace(state.with_graphs(self.compiled.values()), decision=decision)

    def refusal(self, name: str) -> Exception:
        """Returns the error for the explicit graph, called `name`, that Vela refuses: a TosaError if it has floats."""
        assert self.refused is not None, "an explicit graph that Vela accepts equals itself"
        floats = sorted({n.dtype for n in self._checks.verifier.graph.nodes if DTYPES[n.dtype].kind == "float"})
        if not floats:
            return self.refused
        what = f"{name} has tensors of {', '.join(floats)}, and an Ethos-U computes integers only"
        return TosaError(f"{what}: {self.refused}")

    def _wait(self, warnings: list[str]) -> None:
        for which, future in self._pending.items():
            try:
                found = self.compiled[which] = future.result()
            except StockError as e:
                warnings.append(f"stock ExecuTorch failed on this graph: {e}")
            except TosaError as e:
                warnings.append(f"stock's graph cannot be read: {e}")
            except WorkerError as e:
                self.refused = e if which == "explicit" else self.refused
                warnings.append(f"{_REFUSED[which]}: {e}")
            else:
                cycles = found.figures.cycles
                logger.info("%s cycles, %s", f"{cycles:,}", which, extra={"cycles": cycles})
        self._pending = {}
        self.stock = self.compiled.get("stock")
        if self.stock and self._checks.differs_on_samples(self.stock) and self._checks.compare(self.stock) is None:
            del self.compiled["stock"]

    def _compile(self, which: str, given: Stock) -> Compiled:
        """Returns a graph as Vela compiles it; stock's is compared and run meanwhile."""
        buffer = given if isinstance(given, bytes) else given()
        graph = self._checks.verifier.graph if which == "explicit" else loads(buffer, "stock's TOSA")
        self.buffers[which] = buffer
        found = self._oracle.compile(Candidate(which, graph, buffer, tensors=tensor_names(buffer)))
        if which == "stock":
            self._checks.begin(found)
        return found


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
    """

    chosen: str
    given: str
    cycles: int
    settings: tuple[str, ...]
    tosa: bytes
    choice: str = ""
    before: int = 0
    rewritten: bool = False

    def pack(self) -> bytes:
        """Returns the bytes of an entry."""
        return pack_json(to_builtins(self))

    @staticmethod
    def unpack(data: bytes) -> KnownAnswer:
        """Returns the answer of an entry. Raises ValueError for anything else."""
        told = unpack_json(data)
        answer = convert(told, KnownAnswer)
        if told.keys() - {f.name for f in fields(KnownAnswer)}:
            raise ValueError("it has another form")
        return answer


class AnswerStore:
    """Answers by graph and key, both hexadecimal digits; if the store fails, nothing is remembered."""

    def __init__(self, place: str | Path | None = None) -> None:
        """place: of the store, see `eqsat/store/local.py`; None is the user's store.

        Raises InputError if the place is something else than a store.
        """
        self.place = place
        self.warnings: list[str] = []
        if place:
            Setting.of(place).check()

    def entries(self, graph: str, key: str = "") -> dict[str, KnownAnswer]:
        """Returns this machine's answers for a graph, by key; that with the given key may come from a team's store."""
        found: dict[str, KnownAnswer] = {}
        with closing(Store(self.place)) as store:
            if key:
                store.get(ANSWERS, [f"{graph}/{key}"])  # this machine has it from now on
            known, self.warnings = store.family(ANSWERS, f"{graph}/"), store.warnings
        for name, raw in known.items():
            with suppress(ValueError):
                found[name] = KnownAnswer.unpack(raw)
        return found

    def put(self, graph: str, key: str, answer: KnownAnswer) -> None:
        with closing(Store(self.place)) as store:
            store.put(ANSWERS, {f"{graph}/{key}": answer.pack()})
            store.keep(ANSWERS, f"{graph}/", _OF_A_GRAPH)


#: Highest cycles that a known answer may take, or share of the cycles before, as multiples of the known ones.
#: With other constants, cycles before and after depend differently on how well the weights can be compressed.
_AS_GOOD = 1.003
#: Other projects' packages that decide an answer.
_THEIRS = ("egglog", "ethos-u-vela", "tosa-tools", "clingo", "numpy")


@dataclass(frozen=True, slots=True)
class Memory:
    """The known answers for one graph.

    graph: the digest of the graph.
    structure: the digest of its structure without constants.
    key: the digest of the search, "" if it has code of the user's own.
    known: the answers for the graph, by search.
    alike: those for graphs of equal structure, none if `known` has that of the very same search.
    """

    store: AnswerStore
    graph: str
    structure: str
    key: str
    known: Mapping[str, KnownAnswer]
    alike: Mapping[str, KnownAnswer]

    @staticmethod
    def of(store: AnswerStore, explicit: bytes, reference: TensorGraph, state: State, container: Container) -> Memory:
        """Returns what is remembered of a graph."""
        target, options = state.target, state.options
        compiled_for = [f.encode() for f in target.flags]
        with suppress(OSError, ValueError):
            compiled_for.append(Path(target.value_of("--config") or "").read_bytes())
        graph = digest([explicit, *compiled_for])
        structure = digest([respelling.structure(reference).encode(), *compiled_for])
        own = options.rules or places(options)
        parts = [repr(options.record()), repr(container), repr(state.with_settings), repr(versions(_THEIRS)), code()]
        key = "" if own else digest(p.encode() for p in parts)
        known = store.entries(graph, key)
        return Memory(store, graph, structure, key, known, {} if key in known else store.entries(structure, key))

    def keep(self, answer: Answer, tosa: bytes, graphs: Sequence[Compiled]) -> None:
        """Stores the answer of a search. tosa: its graph, with locations. graphs: all that were compared."""
        best = answer.best
        if not self.key or not answer.verified or answer.binary.equal is False:
            return
        known = KnownAnswer(
            best.name,
            best.given,
            best.figures.cycles,
            best.settings,
            tosa if best.name == "eqsat" else b"",
            before=_before(graphs),
        )
        self.store.put(self.graph, self.key, known)
        if choice := respelling.describe(best):
            spelled = replace(known, tosa=b"", choice=choice, rewritten=best.is_rewritten)
            self.store.put(self.structure, self.key, spelled)


def recall(loop: Loop, state: State, memory: Memory, given: Given, checks: Checks) -> State:
    """Returns the state with the known graphs, "remembered" if the answer of the very same search still holds."""
    loop.warnings.extend(memory.store.warnings)
    known = memory.known.get(memory.key)
    state = loop.drive(state, _same_graph([known] if known else list(memory.known.values())))
    if known is None:
        return state
    for c in state.graphs:  # beside the given graphs, which Vela compiles
        checks.begin_answer(c)
    found, state = state.graphs, given.join(loop, state)
    found = found or [c for c in state.graphs if c.name == known.chosen]
    return replace(state, recalled="remembered" if _holds(loop, state, known, found, checks) else "")


def respell(
    loop: Loop, state: State, memory: Memory, given: Given, checks: Checks, rewritings: Sequence[Step]
) -> State:
    """Returns the state with the choice for a graph of equal structure, "respelled" if that answer holds.

    rewritings: if the known graph was changed after it was written, so is this one.
    """
    known, frozen = memory.alike.get(memory.key), state.frozen
    if known is None or frozen is None:
        return state
    state = given.join(loop, state)
    before = set(state.compiled)
    state = loop.drive(state, _same_structure(known, frozen))
    if known.rewritten:
        state = loop.improve(state, rewritings, lambda c: c.key not in before)
    found = [c for c in state.graphs if c.key not in before]
    return replace(state, recalled="respelled" if _holds(loop, state, known, found, checks) else "")


def _same_graph(answers: Sequence[KnownAnswer]) -> Proposal:
    """Returns a proposal of the answers for the very same graph, compiled with the present Vela."""

    def remembered(state: State) -> Asking:
        found = []
        for a in (a for a in answers if a.tosa and _may_choose(a.settings, state)):
            with suppress(TosaError):
                graph, own = loads(a.tosa, "the answer of another search"), tensor_names(a.tosa)
                found.append(Candidate("eqsat", graph, a.tosa, given=a.given, settings=a.settings, tensors=own))
        yield Ask(found)

    return remembered


def _same_structure(known: KnownAnswer, frozen: Frozen) -> Proposal:
    """Returns a proposal of a known choice with the constants of this graph, without settings of Vela and with its own.

    It asks for nothing if the e-graphs differ in what is chosen.
    """

    def remembered(state: State) -> Asking:
        graph = respelling.respell(known.choice, frozen, state.target.family)
        if graph is not None:
            tosa = dumps(graph)
            every = [s for s in dict.fromkeys(((), known.settings)) if _may_choose(s, state)]
            yield Ask([Candidate("eqsat", graph, tosa, settings=s) for s in every])

    return remembered


def _may_choose(settings: Sequence[str], state: State) -> bool:
    return all(may_choose(s, state.target) for s in settings)


def _holds(loop: Loop, state: State, known: KnownAnswer, found: Sequence[Compiled], checks: Checks) -> bool:
    """Whether the best graph that is made of a known answer is as good as that was, fits, and is not wrong."""
    with loop.failing(state):
        fitting = [c for c in found if state.decision.limits.widest.fits(c.figures)]
        best = min(fitting, key=state.decision.rank_of, default=None)
        share = max(1.0, _before(state.graphs) / known.before) if known.before else 1.0
        if best is None or best.figures.cycles > _AS_GOOD * known.cycles * share:
            return False
        checks.begin_answer(best)
        compared = checks.compare(best)
        return compared is not None and compared.binary.equal is not False
    return False


def _before(graphs: Sequence[Compiled]) -> int:
    """Returns the cycles of the best given graph, or 0 if Vela refuses all of them."""
    return min((c.figures.cycles for c in graphs if c.name != "eqsat"), default=0)
