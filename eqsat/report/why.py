"""The explanation of a search for a page: what changed and why.

It lists each operator of the source, the rules that prove its new form, and its alternatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqsat.egraph.rule import Rule
from eqsat.explain import ExplainError, Explanation, Verdict, explain
from eqsat.explain.text import headline
from eqsat.ground.table import Table, number
from eqsat.report.page import Note, Part, Text
from eqsat.search.run import Run

_PROOFS = (
    "Proofs, and the cost of what was not taken, of the changed operators of the most cycles; `eqsat explain RUN NODE` "
    "tells the same of every other one of a saved run."
)
#: Operators, of the most cycles, that are shown with proof and costs of alternatives.
#: Each takes an extraction.
_WRITTEN_OUT = 6


def why(run: Run | None, rules: Sequence[Rule] = ()) -> list[Part]:
    """Explains a search, by repeating its saturation with every step recorded.

    rules: the user's own rules that took part.
    Returns the numbers of operators that stayed and changed, tables by rule and by operator of the source, and proofs.
    """
    if run is None:
        return [Note("No alternatives were found, so that there is nothing to explain.", "warning")]
    try:
        e = explain(run, rules)
    except ExplainError as problem:
        return [Note(str(problem), "warning")]
    changed = [v for v in e.ops.values() if v.verdict != "stayed"]
    costly = sorted(changed, key=_cycles, reverse=True)[:_WRITTEN_OUT]
    proofs: list[Part] = [Text(f"n{v.node} {v.op}: {v.verdict}", e.op_text(v.node)) for v in costly]
    tables = [_by_rule(changed), _operators(e), *([_added(e)] if e.added else [])]
    return [
        *(Note(line.replace("->", "→")) for line in headline(e)),
        *tables,
        *([Note(_PROOFS), *proofs] if proofs else []),
    ]


def _cycles(v: Verdict) -> float:
    return max(v.cycles or 0, v.cycles_now or 0)


def _by_rule(changed: Iterable[Verdict]) -> Table:
    """Returns the table of operators and their cycles before and now, by the rules of their proofs."""
    found: dict[str, list[Verdict]] = {}
    for v in changed:
        for rule in v.rules:
            found.setdefault(rule, []).append(v)
    rows = [
        (r, str(len(vs)), number(sum(v.cycles or 0 for v in vs)), number(sum(v.cycles_now or 0 for v in vs)))
        for r, vs in sorted(found.items(), key=lambda f: -sum(v.cycles or 0 for v in f[1]))
    ]
    return Table(
        "By rule",
        "Operators of the source in whose proofs a rule takes part, and their cycles. One whose proof needs several rules counts for each.",
        ("rule", "operators", "cycles before", "cycles now"),
        tuple(rows),
    )


def _operators(e: Explanation) -> Table:
    rows = [
        (
            f"n{v.node} {v.op} {v.type}",
            v.verdict,
            f"{v.now} {v.now_type}" if v.now and v.verdict != "stayed" else "",
            ", ".join(v.rules),
            ", ".join(map(str, e.origins.get(v.node, ()))),
            number(v.cycles),
            number(v.cycles_now),
        )
        for v in sorted(e.ops.values(), key=lambda v: (v.verdict == "stayed", -_cycles(v)))
    ]
    return Table(
        "By operator of the source",
        "Nodes of the graph with explicit layout. Stayed: as it was; changed: the same value by another operator or with other attributes; moved: the "
        'operator works on another tensor; removed: nothing takes its place. "-" is free or runs as part of a neighbour, which has its cycles.',
        ("operator", "verdict", "now", "rules", "PyTorch", "cycles before", "cycles now"),
        tuple(rows),
        words=5,
    )


def _added(e: Explanation) -> Table:
    return Table(
        "New operators",
        "",
        ("operator", "PyTorch", "cycles"),
        tuple((f"{a.op} {a.type}", ", ".join(map(str, a.origins)), number(a.cycles)) for a in e.added),
        words=2,
    )
