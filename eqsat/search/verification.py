"""Which of the compiled graphs may be the answer: the first, from the cheapest on, that is legal and equals the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.search.choice import Choices
from eqsat.search.deviation import Deviation, deviation
from eqsat.search.options import Options
from eqsat.search.regions import Correspondence, compare_regions, correspondence
from eqsat.search.signature import unread
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
    extracted from; classes: {node of the graph: the e-class that it computes}; deviation: of a tolerant graph, once it was measured."""

    name: str
    graph: TensorGraph
    tosa: bytes
    estimate: Estimate
    tolerant: bool = False
    deviation: Deviation | None = None
    choices: Choices | None = None
    choice: Mapping[int, int] = field(default_factory=dict)
    classes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The graph to use. verified: it is the reference, or equal to it to the bit on samples. stock_verified: the same of the stock graph
    (None: not compared)."""

    best: Compiled
    verified: bool
    stock_verified: bool | None


def rank(c: Compiled) -> tuple[int, bool, int, int]:
    """What candidates are sorted by, the best first: cycles; exact before tolerant; the peak of SRAM in bytes; operators."""
    return c.estimate.cycles, c.tolerant, c.estimate.sram_peak, sum(c.graph.op_counts().values())


def first_equal(
    candidates: Sequence[Compiled], reference: TensorGraph, pool: Pool, options: Options, warnings: list[str]
) -> Answer | None:
    """The best candidate that is legal and equals the reference, which the explicit graph is.

    Where nothing can be compared, it is the better of stock's graph and the explicit one: what was not compared may not replace them, and
    stock's is what there would be without eqsat. An explicit graph that breaks a guard is taken only where there is nothing else,
    and stock's only where it is the best; both with a warning. None: Vela refuses the explicit graph, and nothing else is equal.
    """
    verifier = Verifier(reference, pool, options)
    best, verified, stock_verified = None, True, None
    for c in sorted(candidates, key=rank):
        if c.name == "explicit":
            best = c
            if violations(c.graph):
                continue
            break
        try:
            reason = verifier.unequal(c)
        except Unjudged as e:
            if c.name == "stock":
                warnings.append(f"stock's graph is the result, which could not be verified: {e}")
                best, verified = c, False
                break
            reason = f"it could not be verified: {e}"
        if c.name == "stock":
            stock_verified = not reason
        if not reason:
            best, verified = c, c.deviation is None
            break
        warnings.append(f"{_CALLED[c.name]} was not used: {reason}")
    if best is None:
        return None
    if broken := violations(best.graph):
        warnings.append(f"{_CALLED[best.name]} is used though it breaks a guard: {broken[0]}")
    return Answer(best, verified, stock_verified)


class Verifier:
    """Compares candidates with one reference, which is run once."""

    def __init__(self, graph: TensorGraph, pool: Pool, options: Options) -> None:
        self.graph, self._pool, self._options = graph, pool, options
        self._reference: Reference | None = None
        self._limits: dict[int, tuple[np.ndarray, np.ndarray] | None] = {}

    def reference(self) -> Reference:
        """The reference on its samples. Raises Unjudged."""
        if self._reference is None:
            self._reference = Reference(self.graph, self._pool, self._options.trials)
        return self._reference

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
