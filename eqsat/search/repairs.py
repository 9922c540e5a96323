"""The answer, and the search for others where Vela compiles better candidates wrongly."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.search.alternatives import without
from eqsat.search.attempt import attempt
from eqsat.search.explored import Explored
from eqsat.search.search import Search
from eqsat.verification.checks import Answer, Checks
from eqsat.verification.judging import Judged
from eqsat.verification.verification import first_equal
from extraction import Infeasible

#: Where Vela compiles a candidate wrongly that is better than the answer by more than this share, the search goes on
#: without what is at fault, so many times at most.
_BEHIND, _REPAIRS = 0.01, 3


def answered(
    search: Search, given: Sequence[Compiled], found: Sequence[Explored], checks: Checks, decision: Decision
) -> tuple[Answer | None, list[Explored]]:
    """The first graph that may be the answer; and all that was found. given: candidates that were not extracted.

    Where Vela compiles a better one wrongly, the search goes on without the choices at which the wrong binaries begin
    to differ.
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
    """The graphs of several e-graphs."""
    return [c for e in found for c in e.graphs]


def _without(
    search: Search,
    wrong: Sequence[tuple[Compiled, Judged]],
    answer: Answer,
    found: Sequence[Explored],
    decision: Decision,
) -> list[Explored]:
    """What there is without the choices at which binaries go wrong that are better than the answer's by more than
    `_BEHIND`."""
    forbidden: dict[Explored, set[int]] = {}
    for c, judged in wrong:
        if c.choices is None or not decision.is_better(c.figures, answer.best.figures, by=_BEHIND):
            continue
        origin = c.choices.tensor_graph(c.choice)[1]
        if judged.culprit in origin:
            explored = next(e for e in found if c in e.graphs)
            forbidden.setdefault(explored, set()).add(origin[judged.culprit])
    others = [attempt(search, _other, search, e, nodes, decision) for e, nodes in forbidden.items()]
    return [e for e in others if e]


def _other(search: Search, explored: Explored, forbidden: set[int], decision: Decision) -> Explored | None:
    """What is found without some choices; None if there is no other form of what is at fault."""
    try:
        return without(search, explored, forbidden, decision)
    except Infeasible:
        return None
