"""The page of a compilation.

It shows the cost before and after, the graphs side by side and the search.
It also says why the result equals the source.

result = eqsat.optimize_tosa(tosa, "ethos-u85-256")
eqsat.report.write_page("page.html", result)

It takes a saved run, too.
`eqsat compile` and `eqsat optimize` write it with `--report page.html`.
The page is one file that fetches nothing.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.egraph.rule import Rule
from eqsat.ground.files import write_atomically
from eqsat.ground.versions import commit, versions
from eqsat.report import compiled, graphs
from eqsat.report.environment import environment, kib, number, ratio
from eqsat.report.sides import Sides
from eqsat.report.table import ReportTable
from eqsat.report.why import why
from eqsat.search.figures import GraphFigures
from eqsat.search.result import Result
from eqsat.search.run import Run

logger = logging.getLogger(__name__)


def write_page(
    path: str | Path,
    what: Run | Result | Mapping[str, Run | Result],
    *,
    title: str = "",
    rules: Sequence[Rule] = (),
    facts: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Writes the page of a result, of a saved run, or of several delegates by name.

    rules: the user's own rules that took part.
    facts: further facts at the top of the page, by name.
    warnings: shown above everything else.
    Raises InputError if the place is not writable or a library is missing.
    """
    made = environment()
    from eqsat.report.pictures import KIND_COLOURS

    logger.info("writing the report", extra={"stage": "report"})
    given = what if isinstance(what, Mapping) else {"": what}
    delegates = [Sides.of(one, name) for name, one in given.items()]
    shown = [_delegate(d, rules) for d in delegates]
    text = made.get_template("compile.html").render(
        title=title or " and ".join(d.name for d in delegates),
        target=next((d.run.target.accelerator for d in delegates if d.run), ""),
        vela=next((d.record["vela"] for d in delegates), ""),
        versions=next((d.run.versions for d in delegates if d.run), None) or versions(["eqsat", "ethos-u-vela"]),
        commit=commit(),
        colours={k: c for k, c in KIND_COLOURS.items() if any(k in kinds for d in shown for _, _, kinds in d["bars"])},
        parts=compiled.PARTS,
        facts=facts or {},
        warnings=[*warnings, *(w for d in delegates for w in d.record["warnings"])],
        delegates=shown,
        totals=_totals(delegates),
    )
    write_atomically(Path(path), text.encode())


def _delegate(d: Sides, rules: Sequence[Rule]) -> dict[str, Any]:
    """Returns the values that the templates show of a delegate."""
    from eqsat.report.search_pictures import pareto

    record, excess = d.record, compiled.above_the_bound(d)
    left, (after, new, explorer) = _pictures(d)
    return {
        "sides": d,
        "tiles": _tiles(d),
        "bars": [(s.name, s.figures.cycles or 0, s.figures.by_kind) for s in (*d.before, d.after)],
        "longest": max(s.figures.cycles or 0 for s in (*d.before, d.after)) or 1,
        "costs": compiled.by_operator(d),
        "excess": excess,
        "most": max((cycles for _, _, cycles, _ in excess), default=0) or 1,
        "modules": compiled.by_module(d),
        "memory": compiled.memory(d),
        "every": [compiled.every_operator(s) for s in (d.after, *d.before) if s.rows],
        "left": left,
        "right": (d.after.name, after),
        "changed": new,
        "explorer": explorer,
        "why": why(d.run, rules),
        "search": [
            t
            for t in (
                compiled.extractions(record),
                compiled.points(record),
                *([compiled.saturation(d.run)] if d.run else []),
                compiled.seconds(record["seconds"]),
            )
            if t.rows
        ],
        "pareto": pareto(record["points"], d),
    }


def _pictures(d: Sides) -> tuple[list[tuple[str, str]], tuple[str, ReportTable | None, list[str]]]:
    """Returns the graphs before as (name, picture), and what is shown of the result.

    The latter is its picture with marks against the first graph before, the table of its changes,
    and all graphs and their cycles for Model Explorer, in base64.
    """
    first, after = d.first, d.after
    left, new, pairs, costs = [], set(), {}, {}
    for side in d.before:
        gone, fresh = graphs.marks(side.graph, after.graph)
        left.append((side.name, graphs.svg(side.graph, gone, "gone", side.facts())))
        name = side.name if side.name != after.name else f"{side.name}, as given"
        pairs[name], costs[name] = (side.graph, gone, "gone"), side.facts()
        if side is first:
            new = fresh
    pairs[after.name], costs[after.name] = (after.graph, new, "new"), after.facts()
    changed = graphs.changes(first.graph, after.graph) if first else None
    explorer = graphs.model_explorer(d.name, pairs), graphs.node_data(costs)
    return left, (
        graphs.svg(after.graph, new, "new", after.facts()),
        changed,
        [base64.b64encode(json.dumps(e).encode()).decode() for e in explorer],
    )


def _tiles(d: Sides) -> list[tuple[str, str, str]]:
    """Returns (name, figure, remark) of the most important figures."""
    first, record = d.first, d.record
    old, new, least = first.figures if first else GraphFigures(), d.after.figures, record["bound"]
    before = first.name if first else ""
    out = [("cycles, calibrated", number(new.calibrated), _was(old.calibrated, new.calibrated, number, before))]
    out.append(("cycles by Vela", number(new.cycles), _was(old.cycles, new.cycles, number, before)))
    out.append(("SRAM in use, KiB", kib(new.sram), _was(old.sram, new.sram, kib, before)))
    out.append(("flash: commands and weights, KiB", kib(new.flash), _was(old.flash, new.flash, kib, before)))
    if least["roofline"] and new.cycles:
        was = f"{old.cycles / least['roofline']:.2f} {before}; " if old.cycles else ""
        over = f"{new.cycles / least['roofline']:.2f}"
        out.append(("times the roofline", over, f"{was}at least {least['roofline']:,.0f} cycles"))
        was = f"{least['mac_cycles'] / old.cycles:.1%} {before}; " if old.cycles else ""
        out.append(("MAC utilisation", f"{least['mac_cycles'] / new.cycles:.1%}", f"{was}{least['macs']:,} MACs"))
    return [*out, _verified(record)]


def _was(old: float | None, new: float | None, shown: Callable[[float | None], str], before: str) -> str:
    if old is None or new is None:
        return ""
    return f"{shown(old)} {before}" + (f"; ratio {new / old:.3f}" if old else "")


def _verified(record: Mapping[str, Any]) -> tuple[str, str, str]:
    right = "and in the binary, proved for every input" if record.get("binary_proved") else "and in the binary"
    answer = {True: right, False: "but not in the binary", None: "binary not run"}
    binary = answer[record["binary_verified"]] + (f": {record['binary_reason']}" if record["binary_reason"] else "")
    equal = "proved for every input" if record.get("proved") else "to the bit" if record["verified"] else "no"
    return "verified", equal, binary


def _totals(delegates: Sequence[Sides]) -> ReportTable | None:
    """Returns the table of delegates, None if there is only one."""
    if len(delegates) < 2:
        return None
    rows = []
    for d in delegates:
        old, new = d.first.figures if d.first else GraphFigures(), d.after.figures
        cycles = number(old.cycles), number(new.cycles), _ratio(old.cycles, new.cycles)
        rows.append((d.name, d.after.name, *cycles, kib(old.sram), kib(new.sram)))
    header = ("delegate", "graph", "cycles before", "cycles", "ratio", "SRAM before, KiB", "SRAM, KiB")
    return ReportTable("Delegates", "", header, tuple(rows), words=2)


def _ratio(old: int | None, new: int | None) -> str:
    return ratio(new / old) if old and new is not None else ""
