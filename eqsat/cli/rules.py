"""`eqsat rules`."""
from __future__ import annotations

from rich.table import Table

from eqsat.cli.common import app, console


@app.command()
def rules() -> None:
    """List the families and rules with their statements."""
    from eqsat.rules import FAMILIES

    for family in FAMILIES:
        table = Table(title=(family.__doc__ or family.__name__).split("\n")[0], title_justify="left", show_header=False, box=None)
        for r in family.RULES:
            table.add_row(f"[bold]{r.name}[/bold]", r.statement)
        console.print(table)
