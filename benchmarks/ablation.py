"""What each family of rules contributes, and what the presets reach alone.

    python -m benchmarks.ablation --tosa DIR --targets ethos-u55-128,ethos-u65-256 --out benchmarks/results/ablation

DIR holds what `eqsat bench` saves, or any files `<model>.<delegate>.<target>.{explicit,stock}.tosa`. Every graph is
optimized with all rules, with all but one family for each family, and with each preset. Analyses stay: they only tell
rules what a value is. `records.jsonl` has a line per graph and set of rules; an interrupted run goes on where it
stopped, unless the sources have changed. `table.md` is made from it, and `run.json` has the commit, the versions and
the options.
Cycles are Vela's totals, delegates of a model summed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from benchmarks.about import arguments, as_text, listed, markdown_table, write_about, write_text
from benchmarks.saved import SavedGraph, graphs
from eqsat.bench.cells import measuring_fingerprint
from eqsat.bench.log import Log
from eqsat.egraph.rule import Rule
from eqsat.options.limit import ANY, STOCK
from eqsat.options.options import Options
from eqsat.report.data import geometric_mean
from eqsat.rules import FAMILIES, RULES
from eqsat.rules.presets import PRESETS
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target

#: The column of all rules, and the beginning of the names of those without a family.
ALL = "all"
WITHOUT = "without "
#: The keys that identify a record.
CELL = ("model", "delegate", "target", "column")
_PACKAGES = ("executorch", "ethos-u-vela", "egglog")


def families() -> list[str]:
    """Returns the names of the families of rules."""
    return list(dict.fromkeys(r.family for family in FAMILIES for r in family.RULES))


def rule_sets() -> dict[str, tuple[Rule, ...]]:
    """Returns the rules of each column of the table.

    There is a column of all rules, one without the rewrites of each family, and one of each preset.
    The columns without a family keep all analyses.
    """
    without = {WITHOUT + f: tuple(r for r in RULES if r.analysis or r.family != f) for f in families()}
    return {ALL: tuple(RULES), **without, **{name: tuple(rules) for name, rules in PRESETS.items() if name != ALL}}


def measure(graph: SavedGraph, rules: Sequence[Rule], options: Mapping) -> dict:
    """Returns the cycles of stock, and of eqsat with `rules` alone, and how the search went."""
    started = time.perf_counter()
    result = optimize_tosa(
        graph.explicit.read_bytes(),
        Target.of(graph.target),
        stock=graph.stock.read_bytes(),
        options=Options(preset="none", rules=tuple(rules), **options),
    )
    return {
        "stock": result.stock_cycles,
        "eqsat": result.cycles,
        "chosen": result.chosen,
        "verified": result.verified,
        "e_nodes": result.e_nodes,
        "stop": result.stop,
        "warnings": result.warnings,
        "seconds": round(time.perf_counter() - started, 2),
    }


def ratios(records: Sequence[Mapping]) -> dict[str, dict[str, dict[str, float]]]:
    """Returns {target: {column: {model: cycles over those of stock}}}.

    It leaves out a model of which Vela refuses any stock graph.
    """
    sums: dict[tuple[str, str, str], list[int]] = {}
    unknown = {(r["target"], r["model"]) for r in records if not r["stock"]}
    for r in records:
        if (r["target"], r["model"]) not in unknown:
            total = sums.setdefault((r["target"], r["column"], r["model"]), [0, 0])
            total[0] += r["stock"]
            total[1] += r["eqsat"]
    out: dict[str, dict[str, dict[str, float]]] = {}
    for (target, column, model), (stock, ours) in sums.items():
        out.setdefault(target, {}).setdefault(column, {})[model] = ours / stock
    return out


def table(records: Sequence[Mapping], about: Mapping) -> str:
    """Returns the tables as Markdown.

    For each target there are the ratios to stock of every model and column, with their geometric means.
    They are followed by the means of e-nodes and of seconds of the whole search, and by what each family contributes.
    about: the content of run.json.
    """
    lines = [
        "# Ablation",
        "",
        "Cycles relative to stock ExecuTorch; lower is better. Made by `python -m benchmarks.ablation`.",
        f"{as_text(about)}; {about['options']}.",
        "",
    ]
    for target, columns in sorted(ratios(records).items()):
        names = [c for c in rule_sets() if c in columns]
        models = sorted({m for c in columns.values() for m in c})
        whole = [m for m in models if all(m in columns[c] for c in names)]
        rows = [[m, *(f"{columns[c][m]:.3f}" if m in columns[c] else "-" for c in names)] for m in models]
        if whole:
            means = (f"**{geometric_mean(columns[c][m] for m in whole):.3f}**" for c in names)
            rows.append([f"**geometric mean of {len(whole)}**", *means])
            for what, key in (("e-nodes", "e_nodes"), ("seconds", "seconds")):
                of_all = (_mean(records, target, c, key) for c in names)
                rows.append([f"{what}, geometric mean of all delegates", *of_all])
        lines += [f"## {target}", "", *markdown_table(["model", *names], rows)]
        if whole and ALL in columns:
            lines += _of_families(columns, whole, [n for n in names if n.startswith(WITHOUT)])
    return "\n".join(lines) + "\n"


def _of_families(columns: Mapping[str, Mapping[str, float]], models: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the table of what each family contributes."""
    rows = []
    for name in names:
        gain = {m: columns[name][m] / columns[ALL][m] for m in models}
        best = max(gain, key=gain.__getitem__)
        rows.append([name.removeprefix(WITHOUT), best, f"{geometric_mean(gain.values()):.3f}", f"{gain[best]:.3f}"])
    head = ("family", "most on", "ratio without it / with all, geometric mean", "most on a model")
    return markdown_table(head, rows, names=2)


def _mean(records: Sequence[Mapping], target: str, column: str, key: str) -> str:
    values = [r[key] for r in records if (r["target"], r["column"]) == (target, column)]
    return f"{geometric_mean(max(v, 0.01) for v in values):,.0f}"


def run(found: Sequence[SavedGraph], out: Path, options: Mapping, columns: Sequence[str] = ()) -> str:
    """Fills `out`/records.jsonl and writes `out`/table.md, whose text it returns."""
    about = write_about(out, _PACKAGES, options=", ".join(f"{k} {v}" for k, v in options.items()))
    version = measuring_fingerprint()
    log = Log(out / "records.jsonl", itemgetter(*CELL), lambda r: r.get("sources") == version)
    for graph in found:
        for column, rules in rule_sets().items():
            cell = (graph.model, graph.delegate, graph.target, column)
            if cell not in log.records and (not columns or column in columns):
                record = {**dict(zip(CELL, cell)), **measure(graph, rules, options), "sources": version}
                log.add(record)
                print(*cell, record["stock"], record["eqsat"], record["seconds"], flush=True)
    return write_text(out / "table.md", table(list(log.records.values()), about))


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__, "ablation")
    parser.add_argument("--tosa", type=Path, required=True)
    parser.add_argument("--models", default="", help="default: all in the directory")
    parser.add_argument("--targets", default="", help="default: all in the directory")
    parser.add_argument("--columns", default="", help="sets of rules, by their names in the table; default: all")
    parser.add_argument("--extractor", default=Options().extractor)
    parser.add_argument("--time-limit", type=float, default=Options().time_limit, help="seconds per extraction")
    parser.add_argument("--memory", choices=(STOCK, ANY), default=STOCK, help="what answers may need")
    args = parser.parse_args(argv)
    models, targets, columns = map(listed, (args.models, args.targets, args.columns))
    if unknown := set(columns) - set(rule_sets()):
        parser.error(f"no such set of rules: {', '.join(sorted(unknown))}; there are {', '.join(rule_sets())}")
    found = list(graphs(args.tosa, models, targets))
    if not found:
        parser.error(f"{args.tosa} has no explicit and stock graph of these models and targets")
    options = {
        "extractor": args.extractor,
        "time_limit": args.time_limit,
        "max_sram": args.memory,
        "max_flash": args.memory,
    }
    print(run(found, args.out, options, columns))


if __name__ == "__main__":
    main()
