"""The page of a compilation: the costs and graphs before and after, the search, and why the result is equal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.egraph.rule import Rule
from eqsat.explain import ExplainError, explain
from eqsat.explain.text import costliest, headline, tables
from eqsat.ground.files import write_atomically
from eqsat.ground.table import Table, number, ratio, share
from eqsat.ground.versions import commit, versions
from eqsat.report import compiled
from eqsat.report.compiled import Sides
from eqsat.report.data import KIND_COLOURS
from eqsat.report.page import Bars, Note, Part, Section, Text, Tiles, page
from eqsat.search.figures import GraphFigures, equality
from eqsat.search.result import Result, Run
from eqsat.vela.compile import by_kind

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
    facts: further facts at the top of the page, by name. warnings: shown above everything else.
    Raises OutputError if the place is not writable.
    """
    logger.info("writing the report", extra={"stage": "report"})
    given = what if isinstance(what, Mapping) else {"": what}
    delegates = [Sides.of(one, name) for name, one in given.items()]
    target = next((d.run.target.accelerator for d in delegates if d.run), "")
    named = title or " and ".join(d.name for d in delegates)
    texts = [*warnings, *(w for d in delegates for w in d.record["warnings"])]
    top: list[Part] = [Note(_describe_makers(delegates)), *(Note(text, "warning") for text in texts)]
    if asked := next((_describe_options(d.run) for d in delegates if d.run), ""):
        top.append(Note(asked))
    if facts:
        top.append(Note("; ".join(f"{name}: {value}" for name, value in facts.items()) + "."))
    several = len(delegates) > 1
    sections = [Section("", top), *([Section("Delegates", [_totals(delegates)])] if several else [])]
    for d in delegates:
        whose = f"{d.name}: " if several else ""
        sections += [Section(d.name if several else "", _head(d))]
        sections += [Section(whose + name, parts) for name, parts in _parts(d, named, rules).items()]
    write_atomically(Path(path), page(f"{named} on {target}" if target else named, sections))


def _describe_makers(delegates: Sequence[Sides]) -> str:
    vela = next((d.record["vela"] for d in delegates), "")
    by = next((d.run.versions for d in delegates if d.run), None) or versions(["eqsat", "ethos-u-vela"])
    listed = ", ".join(f"{name} {version}" for name, version in by.items())
    at = "" if commit() == "absent" else f"; eqsat's commit {commit()}"
    return (
        "Calibrated cycles, by which graphs are ranked, are the price of the compiled commands. Vela's cycles are the "
        f"estimate of Vela {vela} for whole graphs. {listed}{at}."
    )


def _describe_options(run: Run) -> str:
    """Returns Vela's configuration and the options of a search, the limits of memory among them."""
    options = {**run.target.configuration, **run.options}
    return "; ".join(f"{k}: {v}" for k, v in options.items() if not isinstance(v, Mapping)) + "."


def _head(d: Sides) -> list[Part]:
    """Returns the most important figures of a delegate, and its cycles by kind of operator."""
    out: list[Part] = [Tiles(_tiles(d)), Note("; ".join(equality(d.record)) + ".")]
    if d.after.name != "eqsat":
        out.append(
            Note(f"No graph that was found is better than the {d.after.name} one, which is the result.", "warning")
        )
    rows: list[tuple[str, Mapping[str, float], str]] = [
        (s.name, by_kind(s.rows), number(s.figures.calibrated))
        if d.calibrated
        else (s.name, s.figures.by_kind, number(s.figures.cycles))
        for s in (*d.before, d.after)
    ]
    if least := d.record["bound"]["roofline"]:
        rows.append((_ROOFLINE, {_ROOFLINE: least}, number(least)))
    return [
        *out,
        Bars(f"Cycles by kind of operator, {d.whose}", "", rows, {**KIND_COLOURS, _ROOFLINE: "#009e73"}),
    ]


#: The least cycles that a graph needs, among its bars.
_ROOFLINE = "roofline"


def _parts(d: Sides, title: str, rules: Sequence[Rule]) -> dict[str, list[Part]]:
    """Returns what is shown of a delegate, by the title of its section."""
    record = d.record
    search = [
        compiled.extractions(record),
        compiled.points(record),
        *([compiled.saturation(d.run)] if d.run else []),
        compiled.seconds(record["seconds"]),
    ]
    opaque = "".join(f", not {name} ({k})" for name, k in record["opaque"].items())
    about = (
        f"{number(record['e_nodes'])} e-nodes; the saturation ended: {record['stop']}; {record['candidates']} graphs "
        f"compared; {share(record['coverage'])} of the operators are modelled{opaque}."
    )
    return {
        "Costs": compiled.costs(d),
        "By PyTorch module": [compiled.by_module(d)],
        "Graphs": compiled.pictures(d, title),
        "What changed and why": _why(d.run, rules),
        "Search": [Note(about), *(t for t in search if t.rows)],
    }


_PROOFS = (
    "Below are the proofs, and the costs of rejected candidates, for the changed operators with the most cycles. For "
    "any other operator of a saved run, `eqsat explain RUN NODE` shows them."
)
#: Operators, of the most cycles, that are shown with proof and costs of alternatives, which take an extraction each.
_WRITTEN_OUT = 6


def _why(run: Run | None, rules: Sequence[Rule]) -> list[Part]:
    """Explains a search, by repeating its saturation with every step recorded."""
    if run is None:
        return [Note("No alternatives were found, so that there is nothing to explain.", "warning")]
    try:
        e = explain(run, rules)
    except ExplainError as problem:
        return [Note(str(problem), "warning")]
    out: list[Part] = [Note(line.replace("->", "→")) for line in headline(e)]
    proofs: list[Part] = [
        Text(f"n{v.node} {v.op}: {v.verdict}", e.op_text(v.node)) for v in costliest(e)[:_WRITTEN_OUT]
    ]
    return [*out, *tables(e), *([Note(_PROOFS), *proofs] if proofs else [])]


#: The figures that a page begins with, by their names in `Sides.tables`.
_FIRST = (
    *("calibrated cycles", "Vela's total", "SRAM in use, bytes", "flash: weights", "flash: commands"),
    *("Vela's total over the roofline", "MAC utilisation"),
)


def _tiles(d: Sides) -> list[tuple[str, str, str]]:
    """Returns (name, figure, remark) of the most important figures."""
    out, place = [], len(d.before) + 1
    for table in d.tables():
        for row in table.rows:
            if row[0] in _FIRST:
                was = [f"{row[1]} {table.header[1]}"] if d.before else []
                change = [f"ratio {row[-1]}"] if d.before and row[-1] else []
                out.append((row[0], row[place], "; ".join([*was, *change])))
    return out


def _totals(delegates: Sequence[Sides]) -> Table:
    rows = []
    for d in delegates:
        old, new = d.first.figures if d.first else GraphFigures(), d.after.figures
        over = ratio(new.calibrated / old.calibrated) if old.calibrated and new.calibrated is not None else ""
        rows.append((d.name, d.after.name, *map(number, (old.calibrated, new.calibrated)), over))
        rows[-1] += tuple(map(number, (old.sram, new.sram)))
    cycles, memory = ("calibrated cycles before", "calibrated cycles", "ratio"), ("SRAM before, bytes", "SRAM, bytes")
    return Table("Delegates", "", ("delegate", "graph", *cycles, *memory), tuple(rows), words=2)
