"""What each family of rules contributes, what the presets reach alone, and what each proposal of the search gives.

    python -m benchmarks.ablation --tosa DIR --targets ethos-u55-128,ethos-u65-256 --out benchmarks/results/ablation
    python -m benchmarks.ablation --proposals --tosa DIR --out benchmarks/results/proposals

DIR holds what `eqsat bench` saves, or any files `<model>.<delegate>.<target>.{explicit,stock}.tosa`; several by commas.
Every graph is optimized with all rules, with all but one family for each family, and with each preset. Analyses stay:
they only tell rules what a value is. With --proposals it is optimized with all proposals (`eqsat/search/proposals`),
and with all but one for each that asked for a new graph; without the others the search is the same. Proposals of the
store of answers are none of these, as there is no store.
`records.jsonl` has a line per graph and column; an interrupted run goes on where it stopped, unless the sources have
changed. `table.md` is made from it, and `run.json` has the commit, the versions and the options.
Cycles are Vela's totals, delegates of a model summed; those of proposals are calibrated, by delegate.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from pkgutil import iter_modules
from unittest.mock import patch

from benchmarks.about import arguments, as_text, listed, markdown_table, write_about, write_text
from benchmarks.saved import SavedGraph, graphs
from eqsat.bench.cells import measuring_fingerprint
from eqsat.bench.log import Log
from eqsat.egraph.rule import Rule
from eqsat.options.decision import Figures
from eqsat.options.limit import ANY, STOCK
from eqsat.options.options import CYCLES, OBJECTIVES, SRAM, Options
from eqsat.report.data import geometric_mean
from eqsat.rules import FAMILIES, RULES
from eqsat.rules.presets import PRESETS
from eqsat.search import proposals
from eqsat.search.loop import Loop
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.proposal import Proposal
from eqsat.search.result import Result
from eqsat.search.state import State
from eqsat.target import Target

#: The column of all rules, and the beginning of the names of those without a family.
ALL = "all"
WITHOUT = "without "
#: The keys that identify a record.
CELL = ("model", "delegate", "target", "column")
#: In place of a proposal, where an answer is as good as a graph that was given.
GIVEN = "given"
#: The proposals of the search; the store of answers, which has `remembered`, is not used here.
PROPOSALS = tuple(m.name for m in iter_modules(proposals.__path__) if m.name != "remembered")
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


@contextmanager
def driven(without: str = "") -> Iterator[list[tuple[str, Figures]]]:
    """Within it a search drives all proposals but one; it gives each new graph's proposal and figures, in order."""
    found, drive = list[tuple[str, Figures]](), Loop.drive

    def drive_others(loop: Loop, state: State, propose: Proposal, *most: float) -> State:
        if propose.__name__ == without:
            return state
        after = drive(loop, state, propose, *most)
        new = (c for key, c in after.compiled.items() if c and key not in state.compiled)
        found.extend((propose.__name__, c.figures) for c in new)
        return after

    with patch.object(Loop, "drive", drive_others):
        yield found


def measure(graph: SavedGraph, column: str, options: Mapping) -> dict:
    """Returns the cycles of stock, and of eqsat with the rules or proposals of a column, and how the search went."""
    started, without = time.perf_counter(), column.removeprefix(WITHOUT)
    rules = rule_sets()[ALL if without in PROPOSALS else column]
    with driven(without) as found:
        result = optimize_tosa(
            graph.explicit.read_bytes(),
            Target.of(graph.target),
            stock=graph.stock.read_bytes(),
            options=Options(preset="none", rules=rules, **options),
            with_settings=True,
        )
    return {
        "stock": result.stock_cycles,
        "eqsat": result.cycles,
        "stock_calibrated": result.stock_calibrated,
        "calibrated": result.calibrated,
        "sram": result.footprint.sram,
        "chosen": result.chosen,
        "verified": result.verified,
        "e_nodes": result.e_nodes,
        "stop": result.stop,
        "compiled": dict(Counter(name for name, _ in found)),
        "first": _first(result, found),
        "warnings": result.warnings,
        "seconds": round(time.perf_counter() - started, 2),
    }


def _first(result: Result, found: Sequence[tuple[str, Figures]]) -> str:
    """Returns the proposal that first asked for a graph with the answer's figures, GIVEN if a given one has them."""
    given = [(GIVEN, _figures(result, name)) for name in ("stock", "explicit")]
    answer = _figures(result, "eqsat")
    return next(name for name, figures in (*given, *found) if figures == answer)


def _figures(result: Result, graph: str) -> Figures | None:
    known = result.figures[graph]
    if known.calibrated is None or known.footprint is None:
        return None
    return Figures.of(known.calibrated, known.footprint, known.cycles or 0)


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


def table_of_proposals(records: Sequence[Mapping], about: Mapping) -> str:
    """Returns the table of what each proposal gives, for each target and for all, as Markdown."""
    key = SRAM if about["objective"] == SRAM else "calibrated"
    cells: dict[tuple[str, ...], dict[str, Mapping]] = {}
    for r in records:
        cells.setdefault((r["target"], r["model"], r["delegate"]), {})[r["column"]] = r
    cells = {cell: columns for cell, columns in cells.items() if ALL in columns}
    lines = [
        "# What each proposal gives",
        "",
        "A cell is a delegate on a target. Of each proposal: the new graphs that Vela compiled for it, and in how many",
        "cells; in how many it was the first to find a graph with the answer's figures; and in how many the answer is",
        f"dearer or cheaper if it is left out, by {_TOLD[key]}: geometric mean over all cells, and the worst one.",
        "Last, the cells where that takes more SRAM at equal cycles. Made by `python -m benchmarks.ablation --proposals`.",
        f"{as_text(about)}; {about['options']}.",
        "",
    ]
    for target in [ALL, *sorted({cell[0] for cell in cells})]:
        mine = {" ".join(cell): columns for cell, columns in cells.items() if target in (cell[0], ALL)}
        first = Counter(columns[ALL]["first"] for columns in mine.values())
        lines += [
            f"## {target}",
            "",
            f"{len(mine)} cells; in {first[GIVEN]} a given graph is as good as the answer.",
            "",
        ]
        rows = [_of_proposal(p, mine, key, first[p]) for p in PROPOSALS]
        lines += markdown_table(_HEAD, rows)
    return "\n".join(lines)


_TOLD = {SRAM: "bytes of SRAM", "calibrated": "calibrated cycles"}
_HEAD = ("proposal", "graphs", "in cells", "first", "dearer", "cheaper", "mean", "worst", "on", "SRAM alone")


def _of_proposal(name: str, cells: Mapping[str, Mapping[str, Mapping]], key: str, first: int) -> list[object]:
    """Returns the row of a proposal; cells where it compiled nothing are the same without it."""
    made = [columns[ALL]["compiled"].get(name, 0) for columns in cells.values()]
    pairs = {cell: (c[WITHOUT + name], c[ALL]) for cell, c in cells.items() if WITHOUT + name in c}
    ratio = {cell: max(1, without[key]) / max(1, whole[key]) for cell, (without, whole) in pairs.items()}
    worst = max(ratio, key=ratio.__getitem__, default="")
    mean = geometric_mean([*ratio.values(), *[1.0] * (len(cells) - len(ratio))])
    dearer, cheaper = sum(r > 1 for r in ratio.values()), sum(r < 1 for r in ratio.values())
    sram = sum(w["sram"] > a["sram"] and w["calibrated"] == a["calibrated"] for w, a in pairs.values())
    most = ratio.get(worst, 1.0)
    counts = [name, sum(made), sum(map(bool, made)), first, dearer, cheaper]
    return [*counts, f"{mean:.4f}", f"{most:.3f}", worst if most > 1 else "-", sram]


def run(found: Sequence[SavedGraph], out: Path, options: Mapping, columns: Sequence[str]) -> str:
    """Fills `out`/records.jsonl and writes `out`/table.md, whose text it returns.

    columns: ALL is measured first; a proposal that compiled nothing there is not left out.
    """
    shown = ", ".join(f"{k} {v}" for k, v in options.items())
    about = write_about(out, _PACKAGES, options=shown, objective=options.get("objective", CYCLES))
    version = measuring_fingerprint()
    log = Log(out / "records.jsonl", itemgetter(*CELL), lambda r: r.get("sources") == version)
    for graph in found:
        cell = (graph.model, graph.delegate, graph.target)
        for column in columns:
            without = column.removeprefix(WITHOUT)
            is_idle = without in PROPOSALS and without not in log.records[*cell, ALL]["compiled"]
            if (*cell, column) not in log.records and not is_idle:
                record = {**dict(zip(CELL, (*cell, column))), **measure(graph, column, options), "sources": version}
                log.add(record)
                print(*cell, column, record["stock"], record["eqsat"], record["seconds"], flush=True)
    has_proposals = any(c.removeprefix(WITHOUT) in PROPOSALS for c in columns)
    text = (table_of_proposals if has_proposals else table)(list(log.records.values()), about)
    return write_text(out / "table.md", text)


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__, "ablation")
    parser.add_argument("--tosa", required=True, help="directories, comma-separated")
    parser.add_argument("--models", default="", help="default: all in the directories")
    parser.add_argument("--targets", default="", help="default: all in the directories")
    parser.add_argument("--proposals", action="store_true", help="leave out proposals of the search, and no rules")
    parser.add_argument("--columns", default="", help="by their names in the table; default: all")
    parser.add_argument("--extractor", default=Options().extractor)
    parser.add_argument("--time-limit", type=float, default=Options().time_limit, help="seconds per extraction")
    parser.add_argument("--memory", choices=(STOCK, ANY), default=STOCK, help="what answers may need")
    parser.add_argument("--objective", choices=OBJECTIVES, default=CYCLES)
    args = parser.parse_args(argv)
    models, targets, columns = map(listed, (args.models, args.targets, args.columns))
    known = [ALL, *(WITHOUT + p for p in PROPOSALS)] if args.proposals else list(rule_sets())
    if unknown := set(columns) - set(known):
        parser.error(f"no such columns: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    found = [g for directory in listed(args.tosa) for g in graphs(Path(directory), models, targets)]
    if not found:
        parser.error(f"{args.tosa} has no explicit and stock graph of these models and targets")
    options = {
        "extractor": args.extractor,
        "time_limit": args.time_limit,
        "max_sram": args.memory,
        "max_flash": args.memory,
        "objective": args.objective,
    }
    print(run(found, args.out, options, [c for c in known if c == ALL or not columns or c in columns]))


if __name__ == "__main__":
    main()
