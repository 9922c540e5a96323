"""Searches one of your graphs for identities that no rule covers.

    python -m benchmarks.discovery graph model.tosa -t ethos-u85-256 -o found

It looks for identities that no rule has: cheaper on a few operators of a graph than what the rules make of them, and
proved equal. Each is written as a rule to read, and to keep or refuse.

Takes up to its time limit, by default 10 minutes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.discovery.find import Discoverer, neighbourhoods, replaced
from benchmarks.discovery.rules import module
from benchmarks.study import arguments
from eqsat.ground.files import InputError, check_output, read_bytes, write_atomically
from eqsat.ground.worker import Pool
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tosa.flatbuffer import dumps, loads


def discover(args: argparse.Namespace) -> dict[str, Any]:
    """Writes a rule for each identity that is found in the graph. Returns what was tried and found.

    Raises InputError.
    """
    target = Target.of(args.target)
    graph = loads(read_bytes(args.source), str(args.source))
    check_output(args.output / "found_1.py")
    until, told, tried = time.monotonic() + args.time_limit, list[dict[str, Any]](), 0
    parts = neighbourhoods(graph, 2, args.most)
    with Pool() as pool:
        discoverer = Discoverer(target, pool, tuple(RULES))
        whole = discoverer.cycles(graph)
        for part in parts:
            if time.monotonic() > until:
                break
            tried += 1
            found = discoverer.discover(part)
            after = found and discoverer.cycles(replaced(graph, part, found.graph))
            if not found or after is None:
                continue
            name = f"found_{len(told) + 1}"
            write_atomically(args.output / f"{name}.tosa", dumps(part.graph))
            write_atomically(args.output / f"{name}.py", module(found, name, args.source.name).encode())
            told.append({"rule": str(args.output / f"{name}.py"), "operators": part.operators, **found.record()})
            told[-1]["whole"] = {"before": whole, "after": after}
    return {"graph": str(args.source), "neighbourhoods": len(parts), "tried": tried, "found": told}


def _print(told: dict[str, Any]) -> None:
    print(f"{told['tried']} of {told['neighbourhoods']} neighbourhoods tried, {len(told['found'])} identities found")
    for one in told["found"]:
        line = f"{one['rule']}: {one['operators']} as {one['recipe']}: {one['known']:,} -> {one['after']:,} cycles"
        if one["whole"]["before"]:
            line += "; whole graph {before:,} -> {after:,}".format(**one["whole"])
        print(line)


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    graph = commands.add_parser("graph", help="look in one graph")
    graph.add_argument("source", type=Path, help="a .tosa file (TOSA 1.0 flatbuffer) to cut neighbourhoods from")
    graph.add_argument("-t", "--target", required=True, help="accelerator configuration, such as ethos-u85-256")
    graph.add_argument("-o", "--output", type=Path, required=True, help="directory for the rules that are found")
    graph.add_argument("--most", type=int, default=5, choices=range(1, 7), help="operators of a neighbourhood, at most")
    graph.add_argument("--time-limit", type=float, default=600.0, help="seconds, after which no neighbourhood is begun")
    graph.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore")
    try:
        told = discover(args)
    except InputError as e:
        parser.exit(2, f"error: {e}\n")
    if args.json:
        print(json.dumps({"schema": 1, **told}))
    else:
        _print(told)


if __name__ == "__main__":
    main()
