"""`eqsat discover`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from eqsat.cli.common import JsonOption, TargetOption, app, bad_input, console, print_json, quiet
from eqsat.cli.live import working
from eqsat.ground.files import check_output, read_bytes, write_atomically


@app.command("discover")
def discover_command(
    source: Annotated[Path, typer.Argument(help="a .tosa file (TOSA 1.0 flatbuffer) to cut neighbourhoods from")],
    *,
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="directory for the rules that are found")],
    least: Annotated[int, typer.Option(min=1, help="operators of a neighbourhood, at least")] = 2,
    most: Annotated[int, typer.Option(min=1, max=6, help="operators of a neighbourhood, at most")] = 5,
    time_limit: Annotated[float, typer.Option(min=1, help="seconds, after which no neighbourhood is begun")] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Look for identities that no rule has: cheaper on a few operators of a graph than what the rules make of them, and
    proved equal. Each is written as a rule to read, and to keep or refuse."""
    quiet()
    from eqsat.discover.find import Discoverer
    from eqsat.discover.neighbourhoods import neighbourhoods, replaced
    from eqsat.discover.text import module, trials
    from eqsat.ground.worker import Pool
    from eqsat.rules import RULES
    from eqsat.target import Target
    from eqsat.tosa.flatbuffer import TosaError, dumps, loads

    with bad_input(TosaError):
        accelerator = Target.of(target)
        graph = loads(read_bytes(source), str(source))
        check_output(output / "found_1.py")
    until, told, tried = time.monotonic() + time_limit, list[dict[str, Any]](), 0
    parts = neighbourhoods(graph, least, most)
    with working(f"discovering in {source}") as state, Pool() as pool:
        discoverer = Discoverer(accelerator, pool, tuple(RULES))
        whole = discoverer.cycles(graph)
        for number, part in enumerate(parts):
            if time.monotonic() > until:
                break
            state.show(f"neighbourhood {number + 1} of {len(parts)}, {len(told)} found")
            tried += 1
            found = discoverer.discover(part)
            after = found and discoverer.cycles(replaced(graph, part, found.graph))
            if not found or after is None:
                continue
            name = f"found_{len(told) + 1}"
            write_atomically(output / f"{name}.tosa", dumps(part.graph))
            write_atomically(output / f"{name}.py", module(found, name, source.name, trials(found)).encode())
            told.append({"rule": str(output / f"{name}.py"), "operators": part.operators, **found.record()})
            told[-1]["whole"] = {"before": whole, "after": after}
    if as_json:
        print_json({"graph": str(source), "neighbourhoods": len(parts), "tried": tried, "found": told})
        return
    console.say(f"{tried} of {len(parts)} neighbourhoods tried, {len(told)} identities found")
    for one in told:
        line = f"{one['rule']}: {one['operators']} as {one['recipe']}: {one['known']:,} -> {one['after']:,} cycles"
        line += "; whole graph {before:,} -> {after:,}".format(**one["whole"]) if whole else ""
        console.say(line)
