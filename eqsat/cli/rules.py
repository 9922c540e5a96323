"""`eqsat rules`."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from eqsat.cli.common import JsonOption, app, console, print_json


@app.command()
def rules(as_json: JsonOption = False) -> None:
    """List the rule families with their rules, and the presets, each with its statement."""
    from eqsat.egraph.externs import first_sentence
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
