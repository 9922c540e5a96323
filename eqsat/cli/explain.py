"""`eqsat explain`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from eqsat.cli.common import SCHEMA, ReportOption, app, console
from eqsat.cli.live import working
from eqsat.ground.files import InputError, check_outputs, write_atomically


@app.command()
def explain(
    run: Annotated[Path, typer.Argument(help="a directory that `--save` of `eqsat compile` or `eqsat optimize` wrote")],
    node: Annotated[
        str | None,
        typer.Argument(help="an operator of the source graph, such as n57, to show its proof and its alternatives"),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            help="draw the e-graph to this file: the values of the chosen graph, or the region around NODE, with "
            "rejected candidates"
        ),
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="write the explanation and the same part of the e-graph as JSON")
    ] = None,
    report: ReportOption = None,
    radius: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="how far the region around NODE extends")] = 2,
    removals: Annotated[
        bool, typer.Option(help="also compute, for each operator that stayed, the cost of the graph without it")
    ] = True,
    user_rules: Annotated[
        list[str] | None, typer.Option("--user-rules", help="the user's rules with which the run was made")
    ] = None,
) -> None:
    """Explain why a result equals its source: list every operator that stayed, changed, moved or disappeared, its
    cycles and the rules that prove the change."""
    check_outputs({"--svg": svg, "--json": as_json, "--report": report}, [run])
    from eqsat import runs
    from eqsat.checking import user_rules as own
    from eqsat.explain import explain as explained
    from eqsat.explain import view

    rules = [r for name in user_rules or () for r in own.find(name).rules]
    if os.path.isdir(run / "0"):
        raise InputError(f"{run} has a run per delegate: name one of them, such as {run / '0'}")
    loaded = runs.load(run)
    number = None if node is None else _number(node)
    with working(f"saturating {loaded.name} again"):
        explanation = explained(loaded, rules)
        text = explanation.text(removals) if number is None else explanation.op_text(number)
        if svg or as_json:
            part = view.whole(loaded) if number is None else view.region(loaded, number, radius)
        if svg:
            mark = None if number is None else explanation.position(number)
            write_atomically(svg, view.svg(part, mark).encode())
        if as_json:
            data = explanation.as_dict(removals) if number is None else explanation.op_dict(number)
            told = {"schema": SCHEMA, "explanation": data, "egraph": asdict(part)}
            write_atomically(as_json, json.dumps(told).encode())
    console.write(text)
    if report:
        from eqsat.report import write_page

        with working(f"the report of {run}"):
            write_page(report, loaded, rules=rules)


def _number(node: str) -> int:
    if not node.removeprefix("n").isdecimal():
        raise InputError(f"{node!r} is no node: give a number such as n57, as `eqsat explain RUN` lists them")
    return int(node.removeprefix("n"))
