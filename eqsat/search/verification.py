"""Which of the compiled graphs may be the answer: the first, from the cheapest on, that is legal and equals the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.search.choice import Choices
from eqsat.search.deviation import Deviation, deviation
from eqsat.search.options import Options
from eqsat.search.signature import unread
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.reference import compare
from eqsat.vela.compile import Estimate
from eqsat.vela.guards import violations
from eqsat.workers.worker import Pool, WorkerError


@dataclass(slots=True)
class Compiled:
    """A whole graph that Vela compiled, for comparison with the others. name: "explicit", "stock" or "eqsat"; choices, choice: what it was
    extracted from; deviation: of a tolerant graph, once it was measured."""

    name: str
    graph: TensorGraph
    tosa: bytes
    estimate: Estimate
    tolerant: bool = False
    deviation: Deviation | None = None
    choices: Choices | None = None
    choice: Mapping[int, int] = field(default_factory=dict)


def first_equal(
    candidates: Sequence[Compiled], base: Compiled, pool: Pool, options: Options, warnings: list[str]
) -> tuple[Compiled, bool | None]:
    """The cheapest candidate that is legal and equals the reference, and whether stock's does (None: not compared)."""
    stock_verified = None
    for c in sorted(candidates, key=lambda c: (c.estimate.cycles, c.tolerant)):
        if c is base:
            return c, stock_verified
        if reason := _unequal(c, base, pool, options):
            warnings.append(f"{'stock ExecuTorch' if c.name == 'stock' else 'a candidate'} was not used: {reason}")
            if c.name == "stock":
                stock_verified = False
            continue
        return c, True if c.name == "stock" else stock_verified
    return base, stock_verified


def _unequal(c: Compiled, base: Compiled, pool: Pool, options: Options) -> str:
    """Why a candidate may not replace the reference, or "" if it may."""
    if c.name != "stock" and (broken := violations(c.graph)):
        return f"it breaks a guard: {broken[0]}"
    if lost := set(unread(c.graph)) - set(unread(base.graph)):
        return f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read"
    try:
        if c.tolerant:
            found = deviation(base.graph, c.graph, pool, options.trials)
            c.deviation = found if any(found.largest) else None
            far = max(found.largest) > options.tolerance
            return (
                f"it differs from the exact graph by {max(found.largest):g} steps, more than {options.tolerance:g}"
                if far
                else ""
            )
        outcome = compare(base.graph, c.graph, pool, options.trials)
    except WorkerError as e:
        return f"the reference model failed: {e}"
    return "" if outcome.equal else f"it differs from the graph before layout passes: {outcome.reason}"
