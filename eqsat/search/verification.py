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

#: What warnings call the graphs.
_CALLED = {"explicit": "the explicit graph", "stock": "stock ExecuTorch", "eqsat": "a candidate"}


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


def rank(c: Compiled) -> tuple[int, bool, int, int]:
    """What candidates are sorted by, the best first: cycles; exact before tolerant; the peak of SRAM in bytes; operators."""
    return c.estimate.cycles, c.tolerant, c.estimate.sram_peak, sum(c.graph.op_counts().values())


def first_equal(
    candidates: Sequence[Compiled], reference: TensorGraph, pool: Pool, options: Options, warnings: list[str]
) -> tuple[Compiled | None, bool | None]:
    """The best candidate that is legal and equals the reference, and whether stock's does (None: not compared).

    The explicit graph is the reference itself. If it breaks a guard it is taken only where there is nothing else, and stock's only
    where it is the best, as ExecuTorch would run it anyway; both with a warning. None: Vela refuses the explicit graph, and nothing else is
    equal.
    """
    stock_verified, last = None, None
    for c in sorted(candidates, key=rank):
        broken = next(iter(violations(c.graph)), "")
        if c.name == "explicit" and broken:
            last = c
        elif reason := _illegal(c, reference, broken) or _unequal(c, reference, pool, options):
            warnings.append(f"{_CALLED[c.name]} was not used: {reason}")
            stock_verified = False if c.name == "stock" else stock_verified
        else:
            last = c
            stock_verified = True if c.name == "stock" else stock_verified
            break
    if last and (broken := next(iter(violations(last.graph)), "")):
        warnings.append(f"{_CALLED[last.name]} is used though it breaks a guard: {broken}")
    return last, stock_verified


def _illegal(c: Compiled, reference: TensorGraph, broken: str) -> str:
    """Why Vela or the runtime must not be given a candidate of ours, or ""."""
    if c.name == "eqsat" and broken:
        return f"it breaks a guard: {broken}"
    if lost := set(unread(c.graph)) - set(unread(reference)):
        return f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read"
    return ""


def _unequal(c: Compiled, reference: TensorGraph, pool: Pool, options: Options) -> str:
    """Why a candidate may not replace the reference, or "" if it may."""
    if c.name == "explicit":
        return ""
    try:
        if c.tolerant:
            found = deviation(reference, c.graph, pool, options.trials)
            c.deviation = found if any(found.largest) else None
            far = max(found.largest) > options.tolerance
            return (
                f"it differs from the exact graph by {max(found.largest):g} steps, more than {options.tolerance:g}"
                if far
                else ""
            )
        outcome = compare(reference, c.graph, pool, options.trials)
    except WorkerError as e:
        return f"the reference model failed: {e}"
    return "" if outcome.equal else f"it differs from the graph before layout passes: {outcome.reason}"
