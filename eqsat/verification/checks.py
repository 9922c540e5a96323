"""The checks that a candidate must pass, and the choice of the answer: the best graph that passes them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from eqsat.choice.compiled import Compiled
from eqsat.device.verification import Verdict, check
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision, Figures, front, shortfall
from eqsat.options.options import PARETO, Options
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Array, DType
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import Comparison, Unjudged, run_samples
from eqsat.vela.compile import compile_tosa
from eqsat.vela.defects import violations
from eqsat.verification.equality import Attempt, Verifier, samples_for

#: Seconds after which a run counts as hung.
_HUNG = 600.0

Samples = Sequence[Sequence[Array]]


class Binaries:
    """Checks the binaries of candidates, each once, in the background.

    seconds: processor time for the proof of one binary; 0: none is run or proved.
    """

    def __init__(self, verifier: Verifier, target: Target, pool: Pool, seconds: float) -> None:
        self._verifier, self._target, self._pool, self._seconds = verifier, target, pool, seconds

    @property
    def run_at_all(self) -> bool:
        """Whether the user wants binaries to be run."""
        return self._seconds > 0

    def begin(self, c: Compiled) -> Future[Verdict]:
        """Starts to run the binary of a candidate, once, and returns the pending verdict."""
        return self._verifier.once(self._judge, c, c, self._verifier.begin_samples(c))

    def verdict(self, c: Compiled) -> Verdict:
        """Returns whether the binary of a candidate computes what the candidate does, or why that is not known."""
        return self.begin(c).result()

    def begin_proof(self, c: Compiled) -> Future[Attempt]:
        """Starts to prove the binary of a candidate, once, and returns the pending result."""
        self.begin(c)  # the run for which the proof waits has to get a thread first
        return self._verifier.once(self._prove, c, c)

    def _prove(self, c: Compiled) -> Attempt:
        verdict = self.verdict(c)
        if not self.run_at_all or verdict.equal is False:
            return Attempt(False, (verdict.reason,))
        return self._verifier.prove_binary(c, c.estimate.raw, self._seconds)

    def _judge(self, c: Compiled, compared: Future[Comparison]) -> Verdict:
        """Returns the verdict on a candidate's binary, with the operator at which it goes wrong.

        compared: the comparison of its graph on the same samples; Vela is not blamed for a fault of the graph.
        """
        if not self.run_at_all:
            return Verdict(None, "binaries are not run (binary_time_limit is 0)")
        try:
            inputs, _ = self._verifier.reference().first(samples_for(c.graph))
            found = check(c.graph, c.estimate.raw, self._pool, inputs, partial(_expect, c.graph, compared), _HUNG)
        except WorkerError as e:
            return Verdict(None, str(e))
        if found.equal is False and (culprit := find_culprit(c.graph, inputs, self._target, self._pool)) is not None:
            return replace(found, reason=f"{found.reason}, from {c.graph.nodes[culprit].op} n{culprit} on")
        return found


def _expect(graph: TensorGraph, compared: Future[Comparison]) -> Sequence[Sequence[Array] | WorkerError]:
    """Returns a graph's outputs per sample, or why there are none. Raises WorkerError if it differs, or hides some."""
    found = compared.result()
    if not found.equal:
        raise WorkerError(f"the graph itself differs from what it was made from: {found.reason}")
    shown = next((ys for ys in found.outputs if not isinstance(ys, WorkerError)), None)
    if shown and any(y.size != graph.type(o).elements for y, o in zip(shown, graph.outputs, strict=True)):
        raise WorkerError("the reference model does not show all outputs")
    return found.outputs


def find_culprit(graph: TensorGraph, inputs: Samples, target: Target, pool: Pool) -> int | None:
    """Returns the first node up to which the graph's binary is wrong, or None; a later one if errors come and go."""
    nodes = ((n, graph.nodes[n]) for n in graph.live())
    # Vela treats wide values differently as outputs than within a graph
    inner = [n for n, node in nodes if OPS[node.op].kind != "leaf" and DType.of(node.dtype).is_activation]
    try:
        answers = run_samples(dumps(_up_to(graph, inner)), inputs, pool, _HUNG)
    except WorkerError:
        return None
    shown = [(x, a) for x, a in zip(inputs, answers, strict=True) if not isinstance(a, WorkerError)]

    def is_wrong_up_to(k: int) -> bool:
        part = _up_to(graph, [inner[k]])
        try:
            raw = compile_tosa(dumps(part), target, pool).raw
            return (
                check(part, raw, pool, [x for x, _ in shown], lambda: [[a[k]] for _, a in shown], _HUNG).equal is False
            )
        except WorkerError:
            return False

    low, high = 0, len(inner)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_wrong_up_to(middle) else (middle + 1, high)
    return inner[low] if low < len(inner) else None


def _up_to(graph: TensorGraph, nodes: Sequence[int]) -> TensorGraph:
    """Returns the graph with some nodes as its outputs."""
    return TensorGraph(nodes=graph.nodes, inputs=graph.inputs, outputs=list(nodes))


#: Names of the graphs in warnings.
CALLED = {"explicit": "the explicit graph", "stock": "stock ExecuTorch", "eqsat": "a candidate"}
#: What is said of a candidate that differs from the reference, and of stock's graph.
_DIFFERS = "it differs from the graph before layout passes"
_OTHER = "what stock ExecuTorch makes of this delegate computes something else"


@dataclass(frozen=True, slots=True)
class Answer:
    """The graph to use, the verdict on its binary, and the proof of its equality for every input.

    verified: whether it is the reference or proved equal to it; of stock's graph also whether samples say so.
    """

    best: Compiled
    verified: bool
    binary: Verdict
    proof: Attempt


class Checks:
    """Checks candidates against one reference, whose values are computed in the background.

    warnings: what the user is told, once for each candidate.
    undecided: {candidate that is passed over since nothing is proved of it: why}.
    """

    def __init__(
        self, reference: TensorGraph, target: Target, pool: Pool, options: Options, warnings: list[str]
    ) -> None:
        self.verifier = Verifier(reference, target, pool, options)
        self.binaries = Binaries(self.verifier, target, pool, options.binary_time_limit)
        self.warnings = warnings
        self.undecided: dict[Compiled, str] = {}
        self._family = target.family
        self._compared: dict[Compiled, Answer | None] = {}

    def begin(self, c: Compiled) -> None:
        """Starts to compare a graph, and to run its binary, since every result reports that."""
        self.binaries.begin(c)
        self.verifier.begin(c)

    def begin_answer(self, c: Compiled) -> None:
        """Starts all checks of a graph that is likely to be the answer."""
        self.begin(c)
        self.binaries.begin_proof(c)

    def guards(self, c: Compiled) -> list[str]:
        """Returns descriptions of the guards that a candidate breaks."""
        return violations(c.graph, self._family)

    def compare(self, c: Compiled) -> Answer | None:
        """Returns the candidate as an answer, or None, with a warning, if it may not be one."""
        if c not in self._compared:
            found = self._compared[c] = self._compare(c)
            if found is not None and found.binary.equal is False:
                self.warnings.append(f"{CALLED[c.name]} was not used: Vela compiles it wrongly: {found.binary.reason}")
        return self._compared[c]

    def verified(self, c: Compiled) -> bool | None:
        """Whether a candidate may be the answer, with a binary not known to be wrong; None before it is compared."""
        if c not in self._compared:
            return None
        found = self._compared[c]
        return found is not None and found.binary.equal is not False

    @property
    def miscompiled(self) -> list[Compiled]:
        """Candidates that were compared and that Vela compiles wrongly."""
        return [c for c, found in self._compared.items() if found and found.binary.equal is False]

    def _compare(self, c: Compiled) -> Answer | None:
        self.binaries.begin(c)
        if c.name == "explicit":
            return Answer(c, True, self.binaries.verdict(c), Attempt(True, error_bound=0.0))
        try:
            proof = self.verifier.equality(c)
        except Unjudged as e:
            if c.name == "stock":
                self.warnings.append(f"stock's graph is the result, which could not be verified: {e}")
                return Answer(c, False, self.binaries.verdict(c), Attempt(False))
            proof = Attempt(False, unusable=f"it could not be verified: {e}")
        if proof.unusable:
            self.warnings.append(f"{CALLED[c.name]} was not used: {proof.unusable}")
        elif proof.counterexample:
            what = _OTHER if c.name == "stock" else f"{CALLED[c.name]} was not used: {_DIFFERS}"
            self.warnings.append(f"{what}: {proof.counterexample}")
        elif not proof.proved and c.name != "stock":  # stock's graph is what there is without eqsat
            self.undecided[c] = ", ".join(proof.undecided)
        else:
            return Answer(c, True, self.binaries.verdict(c), proof)
        return None

    def differs_on_samples(self, c: Compiled) -> bool:
        """Whether a graph computes something else on the samples of its binary, which takes less time than a proof."""
        try:
            return bool(self.verifier.begin_samples(c).result().reason)
        except WorkerError:
            return False

    def stock(self, stock: Compiled | None) -> tuple[bool | None, bool | None, Verdict | None]:
        """Returns (whether stock's graph is equal, whether that is proved, verdict on its binary), as far as known.

        Warns if the graph or the binary is wrong, unless the user was told.
        """
        if stock is None:
            return None, None, None
        verified: tuple[bool | None, bool | None] = None, None
        with suppress(Unjudged):
            proof = self.verifier.equality(stock)
            if proof.counterexample and not proof.unusable:
                self.compare(stock)
                return False, False, None
            verified = (None, proof.proved or None) if proof.unusable else (True, proof.proved)
        binary = self.binaries.verdict(stock)
        if binary.equal is False and stock not in self.miscompiled:
            self.warnings.append(f"Vela compiles stock's graph wrongly: {binary.reason}")
        return *verified, binary


#: After so many candidates that could not be proved, only given graphs and those that were compared before count.
_UNPROVED = 3
#: Graphs that need more memory and are verified to find one for the user, at most.
_OFFERS = 3


def pareto_set(candidates: Sequence[Compiled], checks: Checks) -> list[Compiled]:
    """Returns the Pareto set of the candidates that may replace the reference, as far as known."""
    possible = [c for c in candidates if checks.verified(c) is not False]
    return [possible[i] for i in front([c.figures for c in possible])]


def first_equal(candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> Answer | None:
    """Returns the best candidate that is legal, proved to equal the reference, and compiled rightly.

    Graphs that Vela compiles wrongly, and doubtful ones, are last resorts.
    Returns None if Vela refuses the explicit graph, which is the reference, and nothing else is equal.
    """
    fallbacks: list[Answer] = []
    undecided = 0
    for c in sorted(candidates, key=decision.rank_of):
        if c.name == "eqsat" and undecided == _UNPROVED and checks.verified(c) is None:
            continue
        found = checks.compare(c)
        if found is None:
            undecided += c in checks.undecided
            continue
        if found.binary.equal is not False and not _is_doubtful(found, checks):
            return found
        fallbacks.append(found)
    return min(fallbacks, key=lambda a: (a.binary.equal is False, a.best.name != "stock"), default=None)


def _is_doubtful(found: Answer, checks: Checks) -> bool:
    """Whether a graph may only be a fallback: it breaks a guard, or others were compiled wrongly, and it was not run.

    Stock's graph is excepted, as it is what there is without eqsat.
    """
    c = found.best
    return found.binary.equal is None and c.name != "stock" and bool(checks.guards(c) or checks.miscompiled)


def verify_offers(candidates: Sequence[Compiled], answer: Answer, checks: Checks, decision: Decision) -> None:
    """Verifies what the user is told beside the answer: the Pareto set, or the fastest graph that needs more memory."""
    if decision.objective == PARETO:
        while other := next((c for c in pareto_set(candidates, checks) if checks.verified(c) is None), None):
            checks.compare(other)
        return
    possible = (c for c in candidates if checks.verified(c) is not False)
    faster = (c for c in possible if c.figures.cycles < answer.best.figures.cycles)
    over = [c for c in faster if not decision.limits.fits(c.figures)]
    for c in sorted(over, key=lambda c: c.figures)[:_OFFERS]:
        checks.compare(c)
        if checks.verified(c):
            return


def tell(
    answer: Answer,
    candidates: Sequence[Compiled],
    checks: Checks,
    decision: Decision,
    nearest: Figures | None = None,
) -> None:
    """Adds warnings about the answer. nearest: the graph that exceeds the limits least, None if the answer fits."""
    best, warnings, called = answer.best, checks.warnings, CALLED[answer.best.name]
    if nearest is not None:
        warnings.append(shortfall(decision.limits.widest, best.figures, nearest))
    guards = checks.guards(best)
    if guards and answer.binary.equal is not True:
        warnings.append(f"{called} is used though it breaks a guard: {guards[0]}")
    if answer.binary.equal is False:
        warnings.append(f"{called} is used though Vela compiles it wrongly: {answer.binary.reason}")
    elif answer.binary.equal is None and answer.verified and checks.binaries.run_at_all:
        warnings.append(f"the binary of {called} could not be judged: {answer.binary.reason}")
    fewest = min(checks.undecided, key=decision.rank_of, default=best)
    if decision.rank_of(fewest) < decision.rank_of(best):
        warnings.append(
            f"a candidate of {fewest.figures.cycles:,} cycles was not used for {best.figures.cycles:,}: it equals the "
            f"input on all samples, but is not proved to for every input ({checks.undecided[fewest]})"
        )
    for given in (c for c in candidates if c.choices is None and checks.verified(c) is not False and c is not best):
        if given.figures.cycles < best.figures.cycles and decision.limits.fits(given.figures) and checks.guards(given):
            warnings.append(
                f"{CALLED[given.name]}, {given.figures.cycles:,} cycles, was not used for {best.figures.cycles:,}: "
                f"it breaks a guard ({checks.guards(given)[0]}), and its binary could not be judged"
            )
