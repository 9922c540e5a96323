"""What the rounds behind the extraction give: budgets, orders, settings of Vela, rows in stripes.

    python -m benchmarks.rounds --tosa DIR --models resnet8,unet --out benchmarks/results/rounds

DIR holds what `eqsat bench` saves, or any files `<model>.<delegate>.<target>.{explicit,stock}.tosa`. Every graph is
optimized with all rounds, without each of them, with each alone, and with none; the copies stay. It is asked for the
fewest cycles within half of stock's SRAM, and for the least SRAM at no more cycles than stock's. `records.jsonl` has a
line per graph, question and set of rounds; an interrupted run goes on where it stopped, unless the sources or the
effort have changed. `table.md` is made from it. Cycles are Vela's corrected totals.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.ablation import DelegateGraph, graphs, nothing_fits
from benchmarks.about import as_text, write_about
from eqsat.bench.cells import measuring_fingerprint
from eqsat.bench.log import Log
from eqsat.ground.files import write_atomically
from eqsat.options.options import Options
from eqsat.report.data import geometric_mean
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target

#: The rounds for which there is an argument of the search.
SETTINGS = "settings"
#: {rounds: {function of the search: one in its place that does nothing}}.
ROUNDS: Mapping[str, Mapping[str, Any]] = {
    "budgets": {"eqsat.search.memory_rounds.MemoryRounds.run": lambda rounds: rounds.explored},
    "orders": {
        "eqsat.search.alternatives.in_orders": lambda *_: None,
        "eqsat.search.candidates.in_other_orders": lambda *_: [],
    },
    SETTINGS: {},
    "stripes": {"eqsat.search.optimizer.in_stripes": lambda *_: []},
}
#: {column of the table: the rounds that are left out}.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "all": (),
    **{f"without {name}": (name,) for name in ROUNDS},
    **{f"{name} alone": tuple(n for n in ROUNDS if n != name) for name in ROUNDS},
    "none": tuple(ROUNDS),
}
#: {question: options}.
ASKED: Mapping[str, Mapping[str, Any]] = {"half": {"max_sram": "-50%"}, "sram": {"objective": "sram"}}
#: The keys that identify a record.
CELL = ("model", "delegate", "target", "asked", "column")
ROOT = Path(__file__).parent.parent
_PACKAGES = ("executorch", "ethos-u-vela", "egglog")


@contextmanager
def left_out(names: Sequence[str]) -> Iterator[None]:
    """Within it searches leave out the rounds of these names."""
    with ExitStack() as stack:
        for name in names:
            for function, nothing in ROUNDS[name].items():
                stack.enter_context(patch(function, nothing))
        yield


def measure(graph: DelegateGraph, without: Sequence[str], options: Options) -> dict[str, Any]:
    """Returns cycles and bytes of SRAM of stock's graph and of the answer, and whether it fits."""
    started = time.perf_counter()
    with left_out(without):
        result = optimize_tosa(
            graph.explicit.read_bytes(),
            Target.of(graph.target),
            stock=graph.stock.read_bytes(),
            options=options,
            with_settings=SETTINGS not in without,
        )
    assert result.corrected and result.stock_corrected and result.footprint and result.stock_footprint
    return {
        "cycles": [result.stock_corrected, result.corrected],
        "sram": [result.stock_footprint.sram, result.footprint.sram],
        "fits": result.fits,
        "verified": result.verified,
        "settings": list(result.settings),
        "seconds": round(time.perf_counter() - started, 2),
    }


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns the tables as Markdown, one for each target and question."""
    lines = [
        "# Rounds behind the extraction",
        "",
        "The answer's cycles and SRAM to stock's. Within half of stock's SRAM (half), and with the objective of the "
        "least SRAM (sram). Made by `python -m benchmarks.rounds`.",
        f"{as_text(about)}; effort {about['effort']}.",
        "",
    ]
    for target, asked in dict.fromkeys((r["target"], r["asked"]) for r in records):
        of = {
            (r["model"], r["delegate"], r["column"]): r for r in records if (r["target"], r["asked"]) == (target, asked)
        }
        every = [g for g in dict.fromkeys(k[:2] for k in of) if all((*g, c) in of for c in COLUMNS)]
        lines += [
            f"## {target}, {asked}",
            "",
            f"| rounds | cycles | SRAM | that fit, of {len(every)} | seconds |",
            "|---|--:|--:|--:|--:|",
        ]
        for column in COLUMNS if every else ():
            found = [of[*g, column] for g in every]
            cycles, sram = (geometric_mean(r[key][1] / r[key][0] for r in found) for key in ("cycles", "sram"))
            seconds = geometric_mean(r["seconds"] for r in found)
            lines.append(f"| {column} | {cycles:.3f} | {sram:.3f} | {sum(r['fits'] for r in found)} | {seconds:,.1f} |")
        lines.append("")
    return "\n".join(lines)


def run(found: Sequence[DelegateGraph], out: Path, effort: int) -> str:
    """Fills `out`/records.jsonl and writes `out`/table.md, whose text it returns."""
    out.mkdir(parents=True, exist_ok=True)
    version = measuring_fingerprint()
    log = Log(
        out / "records.jsonl", itemgetter(*CELL), lambda r: (r.get("sources"), r.get("effort")) == (version, effort)
    )
    for graph in found:
        for asked, more in ASKED.items():
            for column, without in COLUMNS.items():
                cell = (graph.model, graph.delegate, graph.target, asked, column)
                if cell not in log.records:
                    measured = measure(graph, without, Options(effort=effort, **more))
                    log.add({**dict(zip(CELL, cell)), **measured, "effort": effort, "sources": version})
                    print(*cell, *measured["cycles"], *measured["sram"], measured["seconds"], flush=True)
    text = table(list(log.records.values()), write_about(out, _PACKAGES, effort=effort))
    write_atomically(out / "table.md", text.encode())
    return text


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tosa", type=Path, required=True)
    parser.add_argument("--models", default="", help="default: all in the directory")
    parser.add_argument("--targets", default="", help="default: all in the directory")
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/rounds")
    args = parser.parse_args(argv)
    models, targets = ([n for n in text.split(",") if n] for text in (args.models, args.targets))
    found = list(graphs(args.tosa, models, targets))
    if not found:
        parser.error(nothing_fits(args.tosa))
    print(run(found, args.out, args.effort))


if __name__ == "__main__":
    main()
