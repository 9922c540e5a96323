"""The choice of the answer, and further searches if Vela compiles better candidates wrongly."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.search.alternatives import without
from eqsat.search.explored import Explored
from eqsat.search.search import Search
from eqsat.verification.checks import Answer, Checks
from eqsat.verification.judging import Judged
from eqsat.verification.verification import first_equal
from extraction import Infeasible

#: Least gain over the answer, as a share, for which a wrongly compiled candidate is replaced.
_BEHIND = 0.01
#: Most searches for replacements.
_REPAIRS = 3


def answered(
    search: Search, given: Sequence[Compiled], found: Sequence[Explored], checks: Checks, decision: Decision
) -> tuple[Answer | None, list[Explored]]:
    """Returns the first graph that may be the answer, and everything found.

    given: candidates that were not extracted.
    If Vela compiles a better graph wrongly, the search goes on without the choices at fault.
    These are the choices at which the wrong binaries begin to differ.
    """
    known, left = 0, _REPAIRS
    while True:
        with search.clock.stage("verify"):
            answer = first_equal([*given, *graphs(found)], checks, decision)
        wrong, known = checks.miscompiled[known:], len(checks.miscompiled)
        more = _without(search, wrong, answer, found, decision) if answer and left else []
        found, left = [*found, *more], left - 1
        if not graphs(more):
            return answer, found


def graphs(found: Sequence[Explored]) -> list[Compiled]:
    """Returns the graphs of several e-graphs."""
    return [c for e in found for c in e.graphs]


def _without(
    search: Search,
    wrong: Sequence[tuple[Compiled, Judged]],
    answer: Answer,
    found: Sequence[Explored],
    decision: Decision,
) -> list[Explored]:
    """Returns the graphs without the choices at which wrong binaries begin to differ.

    Only binaries count whose graphs are better than the answer by more than `_BEHIND`.
    """
    forbidden: dict[Explored, set[int]] = {}
    for c, judged in wrong:
        if c.choices is None or not decision.is_better(c.figures, answer.best.figures, by=_BEHIND):
            continue
        origin = c.choices.tensor_graph(c.choice)[1]
        if judged.culprit in origin:
            explored = next(e for e in found if c in e.graphs)
            forbidden.setdefault(explored, set()).add(origin[judged.culprit])
    others = [search.attempt(_other, search, e, nodes, decision) for e, nodes in forbidden.items()]
    return [e for e in others if e]


def _other(search: Search, explored: Explored, forbidden: set[int], decision: Decision) -> Explored | None:
    """Returns the graphs without some choice nodes; None if the e-graph has no other form."""
    try:
        return without(search, explored, forbidden, decision)
    except Infeasible:
        return None
