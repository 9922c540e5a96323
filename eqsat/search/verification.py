"""Which of the compiled graphs may be the answer: the first, from the cheapest on, that is legal and equals the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np

from eqsat.device.verification import Verdict
from eqsat.egraph.rule import Rule
from eqsat.search.binaries import Binaries
from eqsat.search.choice import Choices
from eqsat.search.decision import Decision, Figures, front
from eqsat.search.deviation import Deviation, deviation
from eqsat.search.options import PARETO, Options
from eqsat.search.referee import StreamPrice
from eqsat.search.regions import Correspondence, compare_regions, correspondence
from eqsat.search.signature import unread
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.reference import Reference, Unjudged
from eqsat.vela.compile import Estimate
from eqsat.vela.guards import violations
from eqsat.workers.worker import Pool, WorkerError

#: What warnings call the graphs.
_CALLED = {"explicit": "the explicit graph", "stock": "stock ExecuTorch", "eqsat": "a candidate"}


@dataclass(slots=True)
class Compiled:
    """A whole graph that Vela compiled, for comparison with the others. name: "explicit", "stock" or "eqsat"; choices, choice: what it was
    extracted from; classes: {node of the graph: the e-class that it computes}; deviation: of a tolerant graph, once it was measured;
    verified: whether it may replace the reference, once that was found out; judged: the price of its command stream, where that decides; more:
    the rules of its e-graph besides those of the options."""

    name: str
    graph: TensorGraph
    tosa: bytes
    estimate: Estimate
    tolerant: bool = False
    deviation: Deviation | None = None
    verified: bool | None = None
    judged: StreamPrice | None = None
    more: Sequence[Rule] = ()
    choices: Choices | None = None
    choice: Mapping[int, int] = field(default_factory=dict)
    classes: Mapping[int, int] = field(default_factory=dict)

    @property
    def figures(self) -> Figures:
        total = self.estimate if self.judged is None else self.judged
        return Figures.of(total.cycles, self.estimate.footprint)


@dataclass(frozen=True, slots=True)
class Answer:
    """The graph to use. verified: it is the reference, or equal to it to the bit on samples. stock_verified: the same of the stock graph
    (None: not compared). binary: whether its binary computes what it says; stock_binary: the same of the stock graph, None if there is none."""

    best: Compiled
    verified: bool
    stock_verified: bool | None
    binary: Verdict
    stock_binary: Verdict | None = None


def rank(c: Compiled, decision: Decision) -> tuple[float, int, bool, int, int]:
    """What candidates are sorted by, the best first: by how much they exceed the limits; the objective; exact before tolerant; of cycles and
    SRAM the other one; operators."""
    excess, wanted, other = decision.rank(c.figures)
    return excess, wanted, c.tolerant, other, sum(c.graph.op_counts().values())


def in_order(
    candidates: Sequence[Compiled], decision: Decision, is_sound: Callable[[Compiled], bool] = lambda c: False
) -> list[Compiled]:
    """The best first. Stock's graph where it breaks a guard, and `is_sound` of it is not known, is not preferred for fitting: it comes behind every
    graph that breaks none and is better by the objective."""
    suspect = [c for c in candidates if c.name == "stock" and violations(c.graph) and not is_sound(c)]
    out = sorted((c for c in candidates if c not in suspect), key=lambda c: rank(c, decision))
    for stock in suspect:
        worse = (
            i
            for i, c in enumerate(out)
            if not violations(c.graph) and decision.rank(stock.figures)[1:] < decision.rank(c.figures)[1:]
        )
        out.insert(next(worse, len(out)), stock)
    return out


def pareto_set(candidates: Sequence[Compiled]) -> list[Compiled]:
    """What may replace the reference, as far as that is known, and is beaten by none that may, by cycles."""
    possible = [c for c in candidates if c.verified is not False]
    return [possible[i] for i in front([c.figures for c in possible])]


def first_equal(
    candidates: Sequence[Compiled],
    checks: Checks,
    decision: Decision,
    warnings: list[str],
) -> Answer | None:
    """The best candidate that is legal, equals the reference, which the explicit graph is, and is not compiled wrongly. One that exceeds the
    limits is taken only where none fits, with a warning. Fills in `verified` of those that it compares.

    Where nothing can be compared, it is the better of stock's graph and the explicit one: what was not compared may not replace them, and
    stock's is what there would be without eqsat. An explicit graph that breaks a guard is taken only where there is nothing else,
    and stock's only where it is the best; both with a warning. So is what Vela compiles wrongly, as the functional model sees it
    (`binaries.py`). None: Vela refuses the explicit graph, and nothing else is equal.
    """
    binaries = checks.binaries
    fallbacks: list[Answer] = []
    answer, stock_verified, told = None, None, False
    for c in in_order(candidates, decision, lambda c: binaries.verdict(c).equal is True):
        found = _compared(c, checks, warnings)
        c.verified = found is not None and found.binary.equal is not False
        if c.name == "stock":
            stock_verified, told = found.stock_verified if found else False, found is not None
        if found is None:
            continue
        if found.binary.equal is False:
            warnings.append(f"{_CALLED[c.name]} was not used: Vela compiles it wrongly: {binaries.wrong(c)}")
            fallbacks.append(found)
        elif c.name == "explicit" and violations(c.graph):
            c.verified = False
            fallbacks.insert(0, found)
        else:
            answer = found
            break
    answer = answer or next(iter(fallbacks), None)
    if answer is None:
        return None
    while decision.objective == PARETO and (other := _unverified(candidates)):
        found = _compared(other, checks, warnings)
        other.verified = found is not None and found.binary.equal is not False and not violations(other.graph)
    if not decision.limits.fits(answer.best.figures):
        warnings.append(
            f"no graph was found that fits into {decision.limits}; {_CALLED[answer.best.name]} comes closest"
        )
    if broken := violations(answer.best.graph):
        warnings.append(f"{_CALLED[answer.best.name]} is used though it breaks a guard: {broken[0]}")
    if answer.binary.equal is False:
        warnings.append(f"{_CALLED[answer.best.name]} is used though Vela compiles it wrongly: {answer.binary.reason}")
    stock = next((c for c in candidates if c.name == "stock"), None)
    if stock is None:
        return replace(answer, stock_verified=stock_verified)
    return replace(answer, stock_verified=stock_verified, stock_binary=_stock_binary(stock, binaries, warnings, told))


def _unverified(candidates: Sequence[Compiled]) -> Compiled | None:
    return next((c for c in pareto_set(candidates) if c.verified is None), None)


def _compared(c: Compiled, checks: Checks, warnings: list[str]) -> Answer | None:
    """The candidate as an answer, if it may replace the reference; else, with a warning, none."""
    binaries = checks.binaries
    binaries.begin(c)
    if c.name == "explicit":
        return Answer(c, True, None, binaries.verdict(c))
    try:
        reason = checks.verifier.unequal(c)
    except Unjudged as e:
        if c.name == "stock":
            warnings.append(f"stock's graph is the result, which could not be verified: {e}")
            return Answer(c, False, None, binaries.verdict(c))
        reason = f"it could not be verified: {e}"
    if reason:
        warnings.append(f"{_CALLED[c.name]} was not used: {reason}")
        return None
    return Answer(c, c.deviation is None, True if c.name == "stock" else None, binaries.verdict(c))


def _stock_binary(stock: Compiled, binaries: _Binaries, warnings: list[str], told: bool) -> Verdict:
    """With a warning where it is wrong, unless the user was told."""
    found = binaries.verdict(stock)
    if found.equal is False and not told:
        warnings.append(f"Vela compiles stock's graph wrongly: {binaries.wrong(stock)}")
    return found


class Verifier:
    """Compares candidates with one reference, which is run once, from now on and beside what the caller does."""

    def __init__(self, graph: TensorGraph, pool: Pool, options: Options) -> None:
        self.graph, self._pool, self._options = graph, pool, options
        self._reference = pool.start(Reference, graph, pool, options.trials)
        self._limits: dict[int, tuple[np.ndarray, np.ndarray] | None] = {}

    def reference(self) -> Reference:
        """The reference on its samples. Raises Unjudged."""
        return self._reference.result()

    def unequal(self, c: Compiled) -> str:
        """Why a candidate may not replace the reference, or "" if it may. Raises Unjudged where there is nothing to compare on."""
        if c.name != "stock" and (broken := violations(c.graph)):
            return f"it breaks a guard: {broken[0]}"
        if lost := set(unread(c.graph)) - set(unread(self.graph)):
            return f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read"
        try:
            if c.tolerant:
                return self._far(c)
            same = correspondence(c.choices.frozen, c.graph, c.classes) if c.choices else None
            reason = self.difference(c.graph, same)
        except Unjudged:
            raise
        except WorkerError as e:
            return f"the reference model failed: {e}"
        return f"it differs from the graph before layout passes: {reason}" if reason else ""

    def difference(self, graph: TensorGraph, same: Correspondence | None = None) -> str:
        """Where a graph differs from the reference, or "": in its outputs and, where it is known which of its values the reference has too,
        in those and in the regions between them. Raises WorkerError."""
        outcome = self.reference().compare(graph, same.claims() if same else ())
        if outcome.equal and same is not None:
            return compare_regions(self.graph, graph, same, self.seen).reason
        return outcome.reason

    def seen(self, node: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Smallest and largest value of a node of the reference on the samples, per index of the last axis."""
        if node not in self._limits:
            values = [v.reshape(-1, v.shape[-1] if v.ndim else 1) for v in self.reference().values(node)]
            self._limits[node] = (
                (np.min([v.min(0) for v in values], 0), np.max([v.max(0) for v in values], 0)) if values else None
            )
        return self._limits[node]

    def _far(self, c: Compiled) -> str:
        """Why a tolerant candidate is too far from the reference, or ""; fills in its deviation."""
        found = deviation(self.graph, c.graph, self._pool, self._options.trials)
        c.deviation = found if any(found.largest) else None
        far, most = max(found.largest), self._options.tolerance
        return f"it differs from the exact graph by {far:g} steps, more than {most:g}" if far > most else ""


class _Binaries:
    """Verdicts on the binaries of candidates, each judged once, beside what the caller does. Stock's, which may take its time while the search goes on,
    has as many seconds as all others together."""

    def __init__(self, verifier: Verifier, target: Target, pool: Pool, seconds: float) -> None:
        self._verifier, self._pool = verifier, pool
        self._of_stock, self._of_others = (Binaries(target, pool, seconds) for _ in range(2))
        self._judged: dict[int, Future[_Judged]] = {}

    def begin(self, c: Compiled) -> Future[_Judged]:
        """Judges the binary of a candidate, unless that was begun before."""
        if id(c) not in self._judged:
            self._judged[id(c)] = self._pool.start(self._judge, c)
        return self._judged[id(c)]

    def verdict(self, c: Compiled) -> Verdict:
        """Whether the binary of a candidate computes what the candidate does."""
        return self.begin(c).result().verdict

    def wrong(self, c: Compiled) -> str:
        """What is wrong with a binary that was run, with the operator that it begins at where that can be told."""
        judged = self.begin(c).result()
        return judged.verdict.reason + f", from {judged.culprit} on" * bool(judged.culprit)

    def _judge(self, c: Compiled) -> _Judged:
        binaries = self._of_stock if c.name == "stock" else self._of_others
        try:
            reference = self._verifier.reference()
            # a stock graph may not have been compared, and a tolerant one differs: these are compared with themselves
            expected = None if c.name == "stock" or c.tolerant else reference.outputs
            found = binaries.verdict(c.graph, c.tosa, reference.inputs, expected)
        except Unjudged as e:
            return _Judged(Verdict(None, str(e)))
        return _Judged(found, binaries.culprit(c.graph, reference.inputs) if found.equal is False else "")


@dataclass(frozen=True, slots=True)
class _Judged:
    """culprit: the operator from which on a wrong binary is wrong, if that was found."""

    verdict: Verdict
    culprit: str = ""


class Checks:
    """What candidates have to pass, against one reference. What does not need them is begun at once: the reference's values."""

    def __init__(self, reference: TensorGraph, target: Target, pool: Pool, options: Options) -> None:
        self.verifier = Verifier(reference, pool, options)
        self.binaries = _Binaries(self.verifier, target, pool, options.binary_time_limit)
