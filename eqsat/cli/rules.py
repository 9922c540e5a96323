"""`eqsat rules` and `eqsat check-rules`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from eqsat.cli.common import REFUTED, UNDECIDED, JsonOption, app, console, print_json
from eqsat.cli.live import working
from eqsat.ground.files import read_bytes

if TYPE_CHECKING:
    from eqsat.checking.user_rules import Report


@app.command()
def rules(as_json: JsonOption = False) -> None:
    """List the rule families with their rules, and the presets, each with its statement."""
    from eqsat.egraph.terms import first_sentence
    from eqsat.rules import FAMILIES
    from eqsat.rules.presets import CATALOGUE

    families = {
        f.__name__.rpartition(".")[2]: [
            {"name": r.name, "statement": r.statement, "analysis": r.analysis} for r in f.RULES
        ]
        for f in FAMILIES
    }
    summaries = {name: first_sentence(f) for name, f in zip(families, FAMILIES)}
    if as_json:
        presets = [{"name": p.name, "statement": p.statement, "rules": [r.name for r in p.rules]} for p in CATALOGUE]
        print_json({"families": families, "summaries": summaries, "presets": presets})
        return
    for family, listed in families.items():
        console.print(_table(summaries[family], [(r["name"], r["statement"]) for r in listed if not r["analysis"]]))
    console.print(
        _table(
            "Presets (--rules NAME)",
            [(f"{p.name} ({len([r for r in p.rules if not r.analysis])})", p.statement) for p in CATALOGUE],
        )
    )


def _table(title: str, rows: list[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for name, statement in rows:
        table.add_row(Text(name, style="bold"), Text(statement))  # statements have brackets, which are no markup
    return table


def _describe_proof(report: Report) -> str:
    """Returns the line about all e-nodes, without their number, which depends on the machine's speed."""
    others = ", ".join(f"{n} {op}" for op, n in sorted(report.undecided.items()))
    return "proved equal for every input: all e-nodes" + (f" but {others}, compared on samples" if others else "")


def _verdict(report: Report, name: str) -> str:
    if name in report.unsound:
        return "UNSOUND"
    if name in report.unproved:
        return "NOT PROVED, though equal on samples"
    return "sound on all" if report.matches[name] else "not exercised"


@app.command("check-rules")
def check_rules(
    rules: Annotated[
        str,
        typer.Argument(
            help="file.py or a module that defines RULES (and GRAPHS), file.py:NAME, module:NAME, "
            "or an entry point in the group eqsat.rules"
        ),
    ],
    graph: Annotated[
        list[Path] | None,
        typer.Option(help="a .tosa file to try the rules on, in addition to random graphs; may be repeated"),
    ] = None,
    graphs: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="number of random graphs")] = 200,
    as_json: JsonOption = False,
) -> None:
    """Check whether your own rules are sound: print how often each rule fired, and a counterexample for each unsound
    rule."""
    from eqsat.checking.user_rules import examine, find
    from eqsat.tosa.flatbuffer import loads

    pack = find(rules)
    given = [loads(read_bytes(p), str(p)) for p in graph or []]
    with working(f"checking {rules}") as state:
        report = examine(pack, graphs, given, lambda n: state.show(f"e-graph {n + 1}"))
    if as_json:
        print_json(
            {
                "rules": rules,
                "graphs": report.graphs,
                "matches": report.matches,
                "unsound": report.unsound,
                "not_proved": sorted(report.unproved),
                "not_exercised": report.unused,
                "e_nodes_proved": report.proved,
                "e_nodes_undecided": dict(report.undecided),
            }
        )
    else:
        for name, matches in report.matches.items():
            console.say(f"{name}: {matches} matches in {report.graphs} e-graphs, {_verdict(report, name)}")
        if not report.unsound:
            console.say(_describe_proof(report))
        for name, why in report.unsound.items():
            console.say(f"\ncounterexample to {name}: {why}")
        if report.unused:
            console.say(
                "\nA rule that never fires is not checked: give graphs that it is made for, "
                "with GRAPHS in its module or --graph FILE.tosa."
            )
        if report.unproved:
            console.say(
                "\nA rule that is not proved may be wrong for inputs that no sample shows: "
                "results that it makes are refused unless they are proved as a whole."
            )
    if report.unsound:
        raise typer.Exit(REFUTED)
    if report.unused or report.unproved:
        raise typer.Exit(UNDECIDED)
