"""Measures the benefit of each family of rules and of each proposal of the search, and compares cost models.

    python -m benchmarks.ablation --tosa DIR --targets ethos-u55-128,ethos-u65-256
    python -m benchmarks.ablation --proposals --tosa DIR --out benchmarks/results/proposals
    python -m benchmarks.ablation --cost-models vela_groups,analytic,mine.py:Model --tosa DIR --out OUT

DIR holds what `eqsat bench` saves, or any files `<model>.<delegate>.<target>.{explicit,stock}.tosa`; several by commas.
Every graph is optimized with all rules, with all but one family for each family, and with each preset. Analyses stay:
they only tell rules what a value is. --columns "without RULE" leaves out a single rule.
With --proposals it is optimized with all proposals (`eqsat/search/proposals`), and with all but one for each that asked
for a new graph; without the others the search is the same. Those of the store of answers are none of these, as there is
no store. A proposal that was never left out has - in the table.
With --cost-models it is optimized by the prices of each.
Cycles are calibrated, delegates of a model summed; in the table of proposals they are apart.

Takes a search for each graph and column, 6 seconds of a processor for small ones.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import iter_modules
from unittest.mock import patch

from benchmarks.study import Study, as_text, listed, markdown_table
from eqsat.bench.records import Record
from eqsat.egraph.rule import Rule
from eqsat.options.decision import Figures
from eqsat.options.options import CYCLES, OBJECTIVES, SRAM, Options
from eqsat.report.data import geometric_mean
from eqsat.rules import FAMILIES, RULES
from eqsat.rules.presets import PRESETS
from eqsat.search import proposals
from eqsat.search.loop import Loop
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.proposal import Proposal, State
from eqsat.search.result import Result
from eqsat.target import Target

_EXPLICIT = ".explicit.tosa"


@dataclass(frozen=True, slots=True)
class SavedGraph:
    """The graph of one delegate in two saved files.

    explicit: before the layout passes.
    stock: as stock ExecuTorch lowers it.
    """

    model: str
    delegate: str
    target: str
    explicit: Path
    stock: Path


def graphs(directory: Path, models: Sequence[str] = (), targets: Sequence[str] = ()) -> Iterator[SavedGraph]:
    """Yields the graphs of which a directory has both files, <model>.<delegate>.<target>.{explicit,stock}.tosa.

    models, targets: only these; all if empty.
    """
    for explicit in sorted(directory.glob(f"*.*.*{_EXPLICIT}")):
        model, delegate, target = explicit.name.removesuffix(_EXPLICIT).rsplit(".", 2)
        stock = explicit.with_name(explicit.name.replace(".explicit.", ".stock."))
        if (not models or model in models) and (not targets or target in targets) and stock.exists():
            yield SavedGraph(model, delegate, target, explicit, stock)


#: The column of all rules, and the beginning of the names of those without a family.
ALL = "all"
WITHOUT = "without "
#: In place of a proposal, where an answer is as good as a graph that was given.
GIVEN = "given"
#: The proposals of the search; the store of answers is not used here.
PROPOSALS = tuple(m.name for m in iter_modules(proposals.__path__))


def rules_of(column: str) -> tuple[Rule, ...]:
    """Returns the rules of a column: those of a preset, or all but one rule or but the rewrites of a family."""
    if column in PRESETS:
        return tuple(PRESETS[column])
    left_out = column.removeprefix(WITHOUT)
    return tuple(r for r in RULES if r.name != left_out and (r.analysis or r.family != left_out))


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


def columns(args: argparse.Namespace) -> list[str]:
    """Returns the names of the columns that are asked for, the one that others are compared with first."""
    proposed = [ALL, *(WITHOUT + p for p in PROPOSALS)]
    families = dict.fromkeys(r.family for family in FAMILIES for r in family.RULES)
    of_rules = [ALL, *(WITHOUT + f for f in families), *(name for name in PRESETS if name != ALL)]
    known = args.cost_models or (proposed if args.proposals else of_rules)
    single = [] if known is not of_rules else [WITHOUT + r.name for r in RULES if not r.analysis]
    if unknown := set(args.columns) - {*known, *single}:
        raise SystemExit(f"no such columns: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if not args.columns:
        return known
    return [c for c in dict.fromkeys([*known, *single]) if c == ALL or c in args.columns]


def cells(args: argparse.Namespace, records: Sequence[Record]) -> Iterator[tuple[Record, tuple[SavedGraph, str]]]:
    """Yields each graph with each column; a proposal that compiled nothing before is not left out."""
    found = [g for directory in args.tosa for g in graphs(Path(directory), args.models, args.targets)]
    if not found:
        raise SystemExit(f"{args.tosa} has no explicit and stock graph of these models and targets")
    for graph in found:
        cell = {"model": graph.model, "delegate": graph.delegate, "target": graph.target}
        for column in columns(args):
            whole = next((r for r in records if {**cell, "column": ALL}.items() <= r.items()), {"compiled": PROPOSALS})
            without = column.removeprefix(WITHOUT)
            if without not in PROPOSALS or without in whole["compiled"]:
                yield {**cell, "column": column}, (graph, column)


def measure(subject: tuple[SavedGraph, str], args: argparse.Namespace) -> list[Record]:
    """Returns the cycles of stock, and of eqsat with what a column has, and how the search went."""
    graph, column = subject
    started, without = time.perf_counter(), column.removeprefix(WITHOUT)
    rules = {} if without in PROPOSALS or args.cost_models else {"preset": "none", "rules": rules_of(column)}
    given = {name: getattr(args, name) for name in ("extractor", "time_limit", "objective", "max_sram", "max_flash")}
    prices = {"cost_model": column} if args.cost_models else {}
    with driven(without) as found:
        result = optimize_tosa(
            graph.explicit.read_bytes(),
            Target.of(graph.target),
            stock=graph.stock.read_bytes(),
            options=Options(**given, **rules, **prices),
            with_settings=True,
        )
    record = {
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
        "predicted": [[e.predicted, e.cycles] for e in result.extractions[:1]],
        "warnings": result.warnings,
        "seconds": round(time.perf_counter() - started, 2),
    }
    return [record]


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


def ratios(records: Sequence[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """Returns {target: {column: {model: cycles over those of stock}}}.

    It leaves out a model of which Vela refuses any stock graph.
    """
    sums: dict[tuple[str, str, str], list[int]] = {}
    unknown = {(r["target"], r["model"]) for r in records if not r["stock"]}
    for r in records:
        if (r["target"], r["model"]) not in unknown:
            total = sums.setdefault((r["target"], r["column"], r["model"]), [0, 0])
            total[0] += r["stock_calibrated"]
            total[1] += r["calibrated"]
    out: dict[str, dict[str, dict[str, float]]] = {}
    for (target, column, model), (stock, ours) in sums.items():
        out.setdefault(target, {}).setdefault(column, {})[model] = ours / stock
    return out


def table(records: Sequence[Record], about: Mapping) -> str:
    """Returns as Markdown, for each target, the ratios to stock of every model and column, with their means.

    The means of e-nodes and of seconds, the error of the first prediction, and what each family or rule that was left
    out contributes follow.
    """
    if any(r["column"].removeprefix(WITHOUT) in PROPOSALS for r in records):
        return table_of_proposals(records, about)
    lines = [
        "# Ablation",
        "",
        "Calibrated cycles relative to stock ExecuTorch; lower is better. Made by `python -m benchmarks.ablation`.",
        f"{as_text(about)}.",
        "",
    ]
    for target, found in sorted(ratios(records).items()):
        models = sorted({m for c in found.values() for m in c})
        whole = [m for m in models if all(m in of_column for of_column in found.values())]
        rows = [[m, *(f"{c[m]:.3f}" if m in c else "-" for c in found.values())] for m in models]
        if whole:
            means = (f"**{geometric_mean(c[m] for m in whole):.3f}**" for c in found.values())
            rows.append([f"**geometric mean of {len(whole)}**", *means])
            of_target = {c: [r for r in records if (r["target"], r["column"]) == (target, c)] for c in found}
            for what, key in (("e-nodes", "e_nodes"), ("seconds", "seconds")):
                of_all = (f"{geometric_mean(max(r[key], 0.01) for r in mine):,.0f}" for mine in of_target.values())
                rows.append([f"{what}, geometric mean of all delegates", *of_all])
            rows.append(["first prediction, median error", *map(_error, of_target.values())])
        lines += [f"## {target}", "", *markdown_table(["model", *found], rows)]
        if whole and ALL in found:
            lines += _of_families(found, whole, [n for n in found if n.startswith(WITHOUT)])
    return "\n".join(lines) + "\n"


def _error(records: Sequence[Record]) -> str:
    """Returns the median error of the predicted cycles of the first choices against those of their commands."""
    pairs = [pair for r in records for pair in r["predicted"]]
    return f"{statistics.median(abs(p / c - 1) for p, c in pairs):.1%}" if pairs else "-"


def _of_families(found: Mapping[str, Mapping[str, float]], models: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the table of what each family or rule contributes."""
    rows = []
    for name in names:
        gain = {m: found[name][m] / found[ALL][m] for m in models}
        best = max(gain, key=gain.__getitem__)
        rows.append([name.removeprefix(WITHOUT), best, f"{geometric_mean(gain.values()):.3f}", f"{gain[best]:.3f}"])
    head = ("left out", "most on", "ratio without it / with all, geometric mean", "most on a model")
    return markdown_table(head, rows, names=2)


def table_of_proposals(records: Sequence[Record], about: Mapping) -> str:
    """Returns the table of what each proposal gives, for each target and for all, as Markdown."""
    key = SRAM if about["arguments"]["objective"] == SRAM else "calibrated"
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
        f"Last, the cells where these are equal, and it takes more {_TOLD[_OTHER[key]]}.",
        "Made by `python -m benchmarks.ablation --proposals`.",
        f"{as_text(about)}; objective {about['arguments']['objective']}.",
        "",
    ]
    for target in [ALL, *sorted({cell[0] for cell in cells})]:
        mine = {" ".join(cell): columns for cell, columns in cells.items() if target in (cell[0], ALL)}
        first = Counter(columns[ALL]["first"] for columns in mine.values())
        told = f"{len(mine)} cells; in {first[GIVEN]} a given graph is as good as the answer."
        rows = [_of_proposal(p, mine, key, first[p]) for p in PROPOSALS]
        lines += [f"## {target}", "", told, "", *markdown_table((*_HEAD, f"more {_TOLD[_OTHER[key]]}"), rows)]
    return "\n".join(lines)


_TOLD = {SRAM: "bytes of SRAM", "calibrated": "calibrated cycles"}
_OTHER = {SRAM: "calibrated", "calibrated": SRAM}
_HEAD = ("proposal", "graphs", "in cells", "first", "dearer", "cheaper", "mean", "worst", "on")


def _of_proposal(name: str, cells: Mapping[str, Mapping[str, Mapping]], key: str, first: int) -> list[object]:
    """Returns the row of a proposal.

    Cells where it compiled nothing are the same without it.
    Other cells that were not measured without it are not compared.
    """
    made = {cell: columns[ALL]["compiled"].get(name, 0) for cell, columns in cells.items()}
    counts = [name, sum(made.values()), sum(map(bool, made.values())), first]
    without = {cell: c[ALL] if not made[cell] else c.get(WITHOUT + name) for cell, c in cells.items()}
    pairs = {cell: (other, cells[cell][ALL]) for cell, other in without.items() if other}
    if not pairs:
        return [*counts, *"------"]
    ratio = {cell: max(1, other[key]) / max(1, whole[key]) for cell, (other, whole) in pairs.items()}
    worst = max(ratio, key=ratio.__getitem__)
    dearer, cheaper = sum(r > 1 for r in ratio.values()), sum(r < 1 for r in ratio.values())
    more = sum(w[key] == a[key] and w[_OTHER[key]] > a[_OTHER[key]] for w, a in pairs.values())
    on = worst if ratio[worst] > 1 else "-"
    return [*counts, dearer, cheaper, f"{geometric_mean(ratio.values()):.4f}", f"{ratio[worst]:.3f}", on, more]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tosa", type=listed, required=True, help="directories, comma-separated")
    parser.add_argument("--models", type=listed, default=[], help="default: all in the directories")
    parser.add_argument("--targets", type=listed, default=[], help="default: all in the directories")
    parser.add_argument("--proposals", action="store_true", help="leave out proposals of the search, and no rules")
    parser.add_argument("--cost-models", type=listed, default=[], help="columns of cost models, in place of rules")
    parser.add_argument("--columns", type=listed, default=[], help="by their names in the table; default: all")
    parser.add_argument("--extractor", default=Options().extractor)
    parser.add_argument("--time-limit", type=float, default=Options().time_limit, help="seconds per extraction")
    parser.add_argument("--max-sram", default=Options().max_sram, help="as of `eqsat compile`")
    parser.add_argument("--max-flash", default=Options().max_flash, help="as of `eqsat compile`")
    parser.add_argument("--objective", choices=OBJECTIVES, default=CYCLES)


STUDY = Study(__doc__, "ablation", options, cells, measure, table)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
