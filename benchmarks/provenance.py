"""How many operators of a result know where they come from.

    eqsat bench -c eqsat --out RUN                       # or any run whose graphs were saved
    python -m benchmarks.provenance RUN/graphs --effort 1 --out benchmarks/results/provenance

Each saved graph with explicit layout is optimized, without limits of memory, and the operators of the result that have
an origin are counted, and so are the rows of Vela's table. A graph that was lowered by eqsat has the names of PyTorch;
in one that has none, as those saved by older versions, every operator is given its own number as an origin: then it is
the way through the e-graph that is measured, and not the lowering. `records.jsonl` has a line per delegate and target,
`run.json` the commit and the versions, `table.md` is made from both; of a delegate that several directories have the
first counts, and a run that was interrupted goes on where it stopped. Exit code 1 if a graph has fewer than 95%.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.about import as_text, write_about
from eqsat.bench.log import Log
from eqsat.bench.lowering import quiet
from eqsat.ground.files import write_atomically
from eqsat.options.limit import ANY
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.origins import of_buffer
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.locations import Origin, text

ROOT = Path(__file__).parent.parent
#: The least share of operators with an origin.
LEAST = 0.95
_PACKAGES = ("eqsat", "ethos-u-vela", "egglog")
_SUFFIX = ".explicit.tosa"


def measure(path: Path, options: Options) -> dict[str, Any]:
    """Returns the record of a saved graph, NAME.DELEGATE.TARGET.explicit.tosa.

    given, result: [number of operators with an origin, number of operators], of the given graph and of the result.
    rows: the same of the rows of Vela's table.
    """
    name, delegate, target = path.name.removesuffix(_SUFFIX).rsplit(".", 2)
    given = path.read_bytes()
    from_pytorch = bool(of_buffer(given))
    if not from_pytorch:
        given = _numbered(given)
    result = optimize_tosa(given, target, options=options)
    return {
        "name": name,
        "delegate": int(delegate),
        "target": target,
        "from_pytorch": from_pytorch,
        "chosen": result.chosen,
        "given": _with_origin(given),
        "result": _with_origin(result.tosa),
        "rows": [sum(bool(row["origins"]) for row in result.table), len(result.table)],
    }


def _operators(buffer: bytes) -> list[int]:
    """Returns the nodes that are operators."""
    graph = loads(buffer)
    return [n for n in graph.live() if graph.nodes[n].op not in ("input", "const")]


def _numbered(buffer: bytes) -> bytes:
    """Returns a graph in which the origin of every operator is its own number."""
    return dumps(loads(buffer), {n: text([Origin(f"n{n}")]) for n in _operators(buffer)})


def _with_origin(buffer: bytes) -> list[int]:
    """Returns [number of operators with an origin, number of operators]."""
    operators, origins = _operators(buffer), of_buffer(buffer)
    return [sum(n in origins for n in operators), len(operators)]


def share(records: Sequence[Mapping[str, Any]], of: str) -> float:
    """Returns the share of operators or rows with an origin over several records, 1 if there are none.

    of: "given", "result" or "rows".
    """
    known, every = (sum(r[of][i] for r in records) for i in (0, 1))
    return known / every if every else 1.0


def faults(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the graphs with a share below LEAST, in words."""
    return [
        f"{r['name']}, delegate {r['delegate']}, on {r['target']}: {share([r], of):.1%} of the {what}"
        for r in records
        for of, what in (("given", "given operators"), ("result", "operators"), ("rows", "rows of Vela's table"))
        if share([r], of) < LEAST
    ]


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns a row per target and kind of names as Markdown."""
    lines = [
        "# Operators with an origin",
        "",
        "Saved graphs, optimized; "
        "of operators whose names are not from PyTorch the way through the e-graph alone is measured. Made by",
        "`python -m benchmarks.provenance`; `records.jsonl` has a line per delegate and target.",
        "",
        f"{as_text(about)}; effort {about['effort']}.",
        "",
        "| target | names | graphs | rewritten | operators given | of these with an origin "
        "| operators of the results | of these with an origin "
        "| rows of Vela's table | of these with an origin |",
        "|---|---|" + "--:|" * 8,
    ]
    for target in sorted({r["target"] for r in records}):
        for real, names in ((True, "PyTorch's"), (False, "numbers")):
            some = [r for r in records if r["target"] == target and r["from_pytorch"] == real]
            figures = (f"{sum(r[of][1] for r in some):,} | {share(some, of):.2%}" for of in ("given", "result", "rows"))
            if some:
                rewritten = sum(r["chosen"] == "eqsat" for r in some)
                lines.append(f"| {target} | {names} | {len(some)} | {rewritten} | {' | '.join(figures)} |")
    lines += ["", *(f"* {f}" for f in faults(records) or [f"No graph below {LEAST:.0%}."])]
    return "\n".join(lines) + "\n"


@quiet()
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", type=Path, nargs="+", help="directories of saved graphs")
    parser.add_argument("--models", default="", help="names, separated by commas (default: all)")
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--cache", type=Path, help="file of measured prices (default: the user's)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/provenance")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    about = write_about(args.out, _PACKAGES, effort=args.effort)
    log = Log(args.out / "records.jsonl", itemgetter("name", "delegate", "target"))
    options = Options(effort=args.effort, cache=args.cache, max_sram=ANY, max_flash=ANY, binary_time_limit=0)
    models = set(filter(None, args.models.split(",")))
    for path in (p for d in args.graphs for p in sorted(d.glob(f"*{_SUFFIX}"), key=lambda p: p.stat().st_size)):
        name, delegate, target = path.name.removesuffix(_SUFFIX).rsplit(".", 2)
        if (models and name not in models) or (name, int(delegate), target) in log.records:
            continue
        record = measure(path, options)
        log.add(record)
        print(path.name, record["result"], record["rows"], flush=True)
    records = [log.records[k] for k in sorted(log.records, key=str)]
    write_atomically(args.out / "table.md", table(records, about).encode())
    return 1 if faults(records) else 0


if __name__ == "__main__":
    sys.exit(main())
