"""Which of the compiled graphs may be the answer: the first, from the cheapest on, that is legal and equals the reference."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np

from eqsat.choice.compiled import Compiled
from eqsat.device.compile import raw_of
from eqsat.device.verification import Verdict
from eqsat.options.decision import Decision, front
from eqsat.options.options import PARETO, Options
from eqsat.proof import PROVED, Proof, Prover, SignatureError
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph, unread
from eqsat.tensor.types import Array
from eqsat.tosa.reference import Reference, Unjudged
from eqsat.vela.guards import broken, violations
from eqsat.verification.binaries import Binaries
from eqsat.verification.deviation import Deviation, deviation
from eqsat.verification.regions import Correspondence, compare_regions, correspondence
from eqsat.workers.worker import Pool, WorkerError

logger = logging.getLogger(__name__)

#: By which share of the objective a graph whose binary was run may be worse than one whose binary could not be judged.
_ABOUT = 0.01
#: How many graphs that need more memory are verified at most, the fastest first, until one may be offered to the user.
_OFFERS = 3
#: What warnings call the graphs.
_CALLED = {"explicit": "the explicit graph", "stock": "stock ExecuTorch", "eqsat": "a candidate"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The graph to use.

    verified: it is the reference, or equal to it to the bit: proved, or on samples.
    binary: whether its binary computes what it says.
    proof: what is known of its equality for every input; None for the reference itself, and where none was tried.
    deviation: by how much it differs, of a tolerant graph that is not equal to the bit.
    """

    best: Compiled
    verified: bool
    binary: Verdict
    proof: Proof | None = None
    deviation: Deviation | None = None

    @property
    def is_proved(self) -> bool:
        """Whether it is equal to the reference for every input."""
        return self.best.name == "explicit" or self.proof is not None and self.proof.verdict == PROVED


def rank(c: Compiled, decision: Decision) -> tuple[float, bool, int, bool, int, int]:
    """What candidates are sorted by, the best first: by how much they exceed the limits; whether they are dearer than stock's by Vela's own total; the
    objective; exact before tolerant; of cycles and SRAM the other one; operators."""
    excess, dearer, wanted, other = decision.rank(c.figures)
    return excess, dearer, wanted, c.tolerant, other, sum(c.graph.op_counts().values())


def in_order(
    candidates: Sequence[Compiled], decision: Decision, is_suspect: Callable[[Compiled], bool]
) -> list[Compiled]:
    """The best first.

    A suspect given graph is not preferred for fitting: it comes behind every graph that is better by the objective.
    """
    suspects = [c for c in candidates if c.choices is None and is_suspect(c)]
    out = sorted((c for c in candidates if c not in suspects), key=lambda c: rank(c, decision))
    for suspect in suspects:
        worse = (i for i, c in enumerate(out) if decision.rank(suspect.figures)[1:] < decision.rank(c.figures)[1:])
        out.insert(next(worse, len(out)), suspect)
    return out


def pareto_set(candidates: Sequence[Compiled], checks: Checks) -> list[Compiled]:
    """What may replace the reference, as far as that is known, and is beaten by none that may, by cycles."""
    possible = [c for c in candidates if checks.verified(c) is not False]
    return [possible[i] for i in front([c.figures for c in possible])]


def first_equal(candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> Answer | None:
    """The best candidate that is legal, equals the reference, which the explicit graph is, and is not compiled wrongly.

    One that exceeds the limits is taken only where none fits.
    One that is not proved equal for every input, or whose binary could not be judged, comes behind one of about the same
    cost (`_ABOUT`) that is and was; stock's graph and the explicit one are what there would be without eqsat.
    Where Vela compiled a candidate wrongly, the answer's own binary was run, whatever the budget says, or it is stock's graph.
    An explicit graph that breaks a guard is taken only if its binary was found to be right, or where there is nothing else,
    and stock's only where it is the best.
    None: Vela refuses the explicit graph, and nothing else is equal.
    """
    fallbacks: list[Answer] = []
    held: Answer | None = None
    for c in in_order(candidates, decision, checks.is_suspect):
        if held is not None and not decision.is_about_as_good(c.figures, held.best.figures, by=_ABOUT):
            break
        found = checks.compared(c)
        if found is None:
            continue
        if found.binary.equal is None and checks.miscompiled:
            found = checks.run_in_any_case(found)
        if found.binary.equal is False or _is_doubtful(found, checks):
            fallbacks.append(found)
        elif c.name == "eqsat" and not (found.is_proved and (found.binary.equal or not checks.binaries.run_at_all)):
            held = held or found
        else:
            held = found
            break
    return held or min(fallbacks, key=lambda a: (a.binary.equal is False, a.best.name != "stock"), default=None)


def _is_doubtful(found: Answer, checks: Checks) -> bool:
    """Whether a graph whose binary is not known to be right may only be a fallback.

    It may if it breaks a guard, or if others of this delegate were compiled wrongly; stock's graph is what there would be without eqsat.
    """
    c = found.best
    return found.binary.equal is None and c.name != "stock" and (checks.breaks_a_guard(c) or bool(checks.miscompiled))


def verify_offers(candidates: Sequence[Compiled], answer: Answer, checks: Checks, decision: Decision) -> None:
    """Verifies what the user is told of beside the answer: the Pareto set, or the fastest graph that needs more memory."""
    if decision.objective == PARETO:
        while other := next((c for c in pareto_set(candidates, checks) if checks.verified(c) is None), None):
            checks.compared(other)
        return
    own = answer.best.figures
    for _ in range(_OFFERS):
        over = [
            c
            for c in candidates
            if checks.verified(c) is not False and c.figures.cycles < own.cycles and not decision.limits.fits(c.figures)
        ]
        fastest = min(over, key=lambda c: c.figures, default=None)
        if fastest is None or checks.verified(fastest):
            return
        checks.compared(fastest)


def tell(answer: Answer, candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> None:
    """Warns of what a user should know about the answer."""
    best, warnings, called = answer.best, checks.warnings, _CALLED[answer.best.name]
    if not decision.limits.fits(best.figures):
        warnings.append(f"no graph was found that fits into {decision.limits}; {called} comes closest")
    guards = checks.guards(best)
    if guards and answer.binary.equal is not True:
        warnings.append(f"{called} is used though it breaks a guard: {guards[0]}")
    if answer.binary.equal is False:
        warnings.append(f"{called} is used though Vela compiles it wrongly: {answer.binary.reason}")
    elif answer.binary.equal is None and answer.verified and checks.binaries.run_at_all:
        warnings.append(f"the binary of {called} could not be judged: {answer.binary.reason}")
    for given in (c for c in candidates if c.choices is None and checks.verified(c) is not False and c is not best):
        if given.figures.cycles < best.figures.cycles and decision.limits.fits(given.figures) and checks.guards(given):
            warnings.append(
                f"{_CALLED[given.name]}, {given.figures.cycles:,} cycles, was not used for {best.figures.cycles:,}: "
                f"it breaks a guard ({checks.guards(given)[0]}), and its binary could not be judged"
            )


@dataclass(frozen=True, slots=True)
class Equality:
    """What a comparison of a candidate with the reference gave.

    reason: why it may not replace the reference, or "" if it may.
    proof: what is known for every input, None where none was tried.
    deviation: by how much a tolerant candidate differs, None if it does not.
    """

    reason: str
    proof: Proof | None = None
    deviation: Deviation | None = None


class Verifier:
    """Compares candidates with one reference, which is run once, from now on and beside what the caller does."""

    def __init__(self, graph: TensorGraph, target: Target, pool: Pool, options: Options) -> None:
        self.graph, self._family, self._pool, self._options = graph, target.family, pool, options
        self._reference = pool.start(Reference, graph, pool, options.trials)
        self._prover = Prover(graph)
        self._limits: dict[int, tuple[Array, Array] | None] = {}

    def reference(self) -> Reference:
        """The reference on its samples. Raises Unjudged."""
        return self._reference.result()

    def equality(self, c: Compiled) -> Equality:
        """Whether a candidate may replace the reference. Raises Unjudged where there is nothing to compare on."""
        if c.name != "stock" and (guards := broken(c.graph, self.graph, self._family)):
            return Equality(f"it breaks a guard: {guards[0]}")
        if lost := set(unread(c.graph)) - set(unread(self.graph)):
            return Equality(f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read")
        proof = None
        try:
            if c.tolerant:
                return self._nearness(c)
            same = correspondence(c.choices.frozen, c.graph, c.classes) if c.choices else None
            self.reference()  # a proof says nothing of a graph that overflows whatever its inputs are
            proof = self.proved(c.graph, same)
            if proof is not None and proof.verdict == PROVED:
                return Equality("", proof)
            shown = proof.counterexample if proof is not None else None
            reason = shown.text if shown is not None else self.difference(c.graph, same)
        except Unjudged:
            raise
        except WorkerError as e:
            return Equality(f"the reference model failed: {e}", proof)
        return Equality(f"it differs from the graph before layout passes: {reason}" if reason else "", proof)

    def proved(self, graph: TensorGraph, same: Correspondence | None = None) -> Proof | None:
        """What is known of the equality of a graph and the reference for every input; None where the checker fails."""
        try:
            return self._prover.prove(graph, same.claims() if same else ())
        except SignatureError:
            return None  # which the comparison on samples tells in words
        except Exception:  # noqa: BLE001 - a proof that fails costs samples, never the result
            logger.warning("the proof of a candidate failed; it is compared on samples", exc_info=True)
            return None

    def difference(self, graph: TensorGraph, same: Correspondence | None = None) -> str:
        """Where a graph differs from the reference, or "": in its outputs and, where it is known which of its values the reference has too,
        in those and in the regions between them. Raises WorkerError."""
        outcome = self.reference().compare(graph, same.claims() if same else ())
        if outcome.equal and same is not None:
            return compare_regions(self.graph, graph, same, self.seen).reason
        return outcome.reason

    def seen(self, node: int) -> tuple[Array, Array] | None:
        """Smallest and largest value of a node of the reference on the samples, per index of the last axis."""
        if node not in self._limits:
            values = [v.reshape(-1, v.shape[-1] if v.ndim else 1) for v in self.reference().values(node)]
            self._limits[node] = (
                (np.min([v.min(0) for v in values], 0), np.max([v.max(0) for v in values], 0)) if values else None
            )
        return self._limits[node]

    def _nearness(self, c: Compiled) -> Equality:
        """Whether a tolerant candidate is near enough to the reference."""
        found = deviation(self.graph, c.graph, self._pool, self._options.trials)
        far, most = max(found.largest), self._options.tolerance
        reason = f"it differs from the exact graph by {far:g} steps, more than {most:g}" if far > most else ""
        return Equality(reason, deviation=found if any(found.largest) else None)


class _Binaries:
    """Verdicts on the binaries of candidates, each judged once, beside what the caller does.

    Stock's, which may take its time while the search goes on, has a budget of its own, as large as that of all others together.
    """

    def __init__(self, verifier: Verifier, target: Target, pool: Pool, seconds: float) -> None:
        self._verifier, self._pool = verifier, pool
        self._of_stock, self._of_others = (Binaries(target, pool, seconds) for _ in range(2))
        self._judged: dict[tuple[Compiled, bool], Future[Judged]] = {}

    @property
    def run_at_all(self) -> bool:
        """Whether the user wants binaries to be run."""
        return self._of_others.run_at_all

    def begin(self, c: Compiled, whatever_it_takes: bool = False) -> Future[Judged]:
        """Judges the binary of a candidate, unless that was begun before."""
        key = c, whatever_it_takes
        if key not in self._judged:
            self._judged[key] = self._pool.start(self._judge, c, whatever_it_takes)
        return self._judged[key]

    def verdict(self, c: Compiled, whatever_it_takes: bool = False) -> Verdict:
        """Whether the binary of a candidate computes what the candidate does."""
        return self.begin(c, whatever_it_takes).result().verdict

    def _judge(self, c: Compiled, whatever_it_takes: bool) -> Judged:
        binaries = self._of_stock if c.name == "stock" else self._of_others
        try:
            reference = self._verifier.reference()
            # a stock graph may not have been compared, and a tolerant one differs: these are compared with themselves
            expected = None if c.name == "stock" or c.tolerant else reference.outputs
            raw = raw_of(c.estimate)
            found = binaries.verdict(c.graph, c.tosa, raw, reference.inputs, expected, whatever_it_takes)
        except Unjudged as e:
            return Judged(Verdict(None, str(e)))
        if found.equal is not False:
            return Judged(found)
        culprit = binaries.culprit(c.graph, reference.inputs)
        operator = "" if culprit is None else f", from {c.graph.nodes[culprit].op} n{culprit} on"
        return Judged(found, culprit, found.reason + operator)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a binary.

    culprit: the node of the graph from which on a wrong binary is wrong, if that was found.
    reason: what is wrong, with that operator.
    """

    verdict: Verdict
    culprit: int | None = None
    reason: str = ""


class Checks:
    """What candidates have to pass, against one reference.

    What does not need them is begun at once: the reference's values.
    warnings: what the user is told, once for each candidate.
    miscompiled: candidates that Vela compiles wrongly, with the operator.
    """

    def __init__(
        self, reference: TensorGraph, target: Target, pool: Pool, options: Options, warnings: list[str]
    ) -> None:
        self.verifier = Verifier(reference, target, pool, options)
        self.binaries = _Binaries(self.verifier, target, pool, options.binary_time_limit)
        self.warnings = warnings
        self.miscompiled: list[tuple[Compiled, Judged]] = []
        self._family = target.family
        self._equal: dict[Compiled, Equality] = {}
        self._compared: dict[Compiled, Answer | None] = {}
        self._guards: dict[Compiled, list[str]] = {}

    def guards(self, c: Compiled) -> list[str]:
        """What in a candidate breaks a guard, in words."""
        if c not in self._guards:
            self._guards[c] = violations(c.graph, self._family)
        return self._guards[c]

    def breaks_a_guard(self, c: Compiled) -> bool:
        return bool(self.guards(c))

    def is_suspect(self, c: Compiled) -> bool:
        """Whether a candidate breaks a guard, and its binary is not known to be right."""
        return self.breaks_a_guard(c) and self.binaries.verdict(c).equal is not True

    def compared(self, c: Compiled) -> Answer | None:
        """The candidate as an answer, if it may replace the reference; None, with a warning, if it may not."""
        if c not in self._compared:
            found = self._compared[c] = self._compare(c)
            if found is not None and found.binary.equal is False:
                self._warn_of_binary(c, False)
        return self._compared[c]

    def verified(self, c: Compiled) -> bool | None:
        """Whether a candidate may replace the reference and is compiled rightly, as far as known; None before it was compared."""
        if c not in self._compared:
            return None
        found = self._compared[c]
        return found is not None and found.binary.equal is not False

    def run_in_any_case(self, found: Answer) -> Answer:
        """An answer whose binary was run though the budget is used up."""
        c = found.best
        binary = self.binaries.verdict(c, whatever_it_takes=True)
        if binary.equal is False:
            self._warn_of_binary(c, True)
        changed = self._compared[c] = replace(found, binary=binary)
        return changed

    def _warn_of_binary(self, c: Compiled, whatever_it_takes: bool) -> None:
        judged = self.binaries.begin(c, whatever_it_takes).result()
        self.miscompiled.append((c, judged))
        self.warnings.append(f"{_CALLED[c.name]} was not used: Vela compiles it wrongly: {judged.reason}")

    def _compare(self, c: Compiled) -> Answer | None:
        binaries = self.binaries
        binaries.begin(c)
        if c.name == "explicit":
            return Answer(c, True, binaries.verdict(c))
        try:
            found = self._equal[c] = self.verifier.equality(c)
        except Unjudged as e:
            if c.name == "stock":
                self.warnings.append(f"stock's graph is the result, which could not be verified: {e}")
                return Answer(c, False, binaries.verdict(c))
            found = Equality(f"it could not be verified: {e}")
        if found.reason:
            self.warnings.append(f"{_CALLED[c.name]} was not used: {found.reason}")
            return None
        return Answer(c, found.deviation is None, binaries.verdict(c), found.proof, found.deviation)

    def stock(self, candidates: Sequence[Compiled]) -> tuple[bool | None, bool | None, Verdict | None]:
        """(whether stock's graph equals the reference, whether that is proved, the verdict on its binary), each None if it is not known.

        Warns where its binary is wrong, unless the user was told.
        """
        stock = next((c for c in candidates if c.name == "stock"), None)
        if stock is None:
            return None, None, None
        known, found = stock in self._compared, self._compared.get(stock)
        equality = self._equal.get(stock)
        proof = self.verifier.proved(stock.graph) if not known else equality.proof if equality else None
        proved = None if proof is None else proof.verdict == PROVED
        equal = (proved or None) if not known else found is not None and (found.verified or None)
        if not any(c is stock for c, _ in self.miscompiled):
            judged = self.binaries.begin(stock).result()
            if judged.verdict.equal is False:
                self.warnings.append(f"Vela compiles stock's graph wrongly: {judged.reason}")
        return equal, proved, self.binaries.verdict(stock)
