"""Tables of a run for the terminal, `report.md` and the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from operator import itemgetter
from statistics import fmean
from typing import Any

from eqsat.bench.cells import BEST, LITERT, RANKED_BY, STOCK
from eqsat.bench.fields import Record
from eqsat.bench.records import place
from eqsat.ground.table import Table, kib, number, ratio, share
from eqsat.report.data import OWN_STAGES, STAGES, RecordedRun, geometric_mean, graph_figures, total
from eqsat.search.clock import name_stage
from eqsat.search.comparison import tables as figure_tables
from eqsat.search.figures import GraphFigures


def standings(run: RecordedRun) -> Table:
    """Returns the table of geometric means over the models, a row per target and configuration."""
    rows, best, peers = [], BEST in run.configurations, bool({BEST, LITERT} & set(run.configurations))
    for target, c in product(run.targets, run.configurations):
        cells = partial(run.by_model, target, c)
        models = sum(run.get(m, target, c) is not None for m in run.models)
        if not models:
            continue
        to_stock = cells(run.to_baseline) if c != STOCK else {}
        peer, utilisation = cells(run.over_peer), cells(run.utilisation).values()
        worst = max((peer or to_stock).items(), key=itemgetter(1), default=None)
        rows.append(
            {
                "target": target,
                "configuration": c,
                "models": str(models),
                "to stock": _mean(to_stock),
                **({"to stock-best": _mean(cells(run.over_best))} if best else {}),
                **({"to peer": _mean(peer)} if peers else {}),
                "worst": f"{worst[1]:.3f} {worst[0]}" if worst else "-",
                "losses": str(sum(r > 1 for r in to_stock.values())) if to_stock else "-",
                "Vela's total": _mean(cells(run.to_baseline, "cycles") if c != STOCK else {}),
                "roofline": _mean(cells(run.over)),
                "operators": _mean(cells(run.over, "operators")),
                "MACs": _number(fmean(utilisation), ".1%") if utilisation else "-",
                "SRAM": _mean(cells(run.to_baseline, "sram")),
                ".pte": _mean(cells(run.to_baseline, "pte_bytes")),
            }
        )
    note = (
        "Geometric means over the models. Calibrated cycles, which decide, to stock's, to those of stock-best (in the "
        "settings of Vela and the layouts of inputs and outputs that are best), and to the best peer's: of stock, "
        "stock-best and, where it leaves nothing to the CPU, LiteRT. The worst model is that of the peers, "
        "or of stock where there are none; losses are models with more cycles than stock's. Vela's total to stock's, "
        "over the roofline (the largest of MACs, weight bytes, and bytes in and out, at the full rates that Vela has "
        "configured) and over the tighter bound by operators (of each the larger of MACs and weight bytes, added up). "
        "MACs: the share of all cycles that they need at the full rate, a plain mean. "
        "SRAM in use and .pte file to stock's."
    )
    return Table.of("Where configurations stand", note, rows, words=2)


def bounds(run: RecordedRun, target: str) -> Table:
    """Returns the table of models with cycles over the roofline, MACs, SRAM in use and bytes of the file."""
    shown = [c for c in run.configurations if any(run.get(m, target, c) for m in run.models)]
    rows = []
    for m in run.models:
        if least := run.bound(m, target):
            row = [m, f"{least['roofline']:,.0f}", f"{least['operators']:,.0f}"]
            for c in shown:
                r = run.get(m, target, c)
                known = graph_figures(r) if r else GraphFigures()
                row += [
                    _number(run.over(m, target, c), ".2f"),
                    _number(run.utilisation(m, target, c), ".1%"),
                    kib(known.sram),
                    kib(r.get("tflite_bytes", known.pte_bytes) if r else None),
                ]
            rows.append(tuple(row))
    each = ("over roofline", "MACs", "SRAM, KiB", "file, KiB")
    return Table(
        f"Over the roofline, and memory: {target}",
        "Cycles of the roofline and of the bound by operators; cycles over the roofline, the share of them that MACs "
        "need at the full rate, SRAM in use at once, and the .pte file (LiteRT: .tflite).",
        ("model", "roofline", "by operators", *(f"{c}: {what}" for c in shown for what in each)),
        tuple(rows),
    )


def models(run: RecordedRun, target: str) -> Table:
    """Returns the table of a target, with a row per model; names of models lead to their pages."""
    others = [c for c in run.configurations if any((m, target, c) in run.records for m in run.models)]
    cells = {m: [run.records.get((m, target, c)) for c in others] for m in run.models}
    rows = (
        (m, _describe_verified(records), *(_cell(run, r) for r in records), *_seconds(run, m, target))
        for m, records in cells.items()
        if any(records)
    )
    header = ("model", "verified", *others, "eqsat s", "ExecuTorch s")
    links = {m: page_name(m, target) for m in run.models}
    note = "Calibrated cycles, and in brackets their ratio to stock's."
    return Table(target, note, header, tuple(rows), words=2, links=links)


def page_name(model: str, target: str) -> str:
    """Returns the file of the page of a model on a target."""
    return f"{model}.{target}.html"


def _cell(run: RecordedRun, record: Record | None) -> str:
    if record is None:
        return ""
    if "error" in record:
        return "failed"
    at = place(record)
    found = run.to_baseline(*at)
    text = f"{record[RANKED_BY]:,}"
    if record is not run.baseline(record["model"], record["target"]) and found is not None:
        text += f" (**{found:.3f}**, loss)" if found > 1 else f" ({found:.3f})"
    if left := record.get("cpu_operators"):
        text += f", {left} on the CPU"
    return text


def _describe_verified(cells: list[Record | None]) -> str:
    verdicts = {
        r["configuration"]: r["verified"] for r in cells if r and "error" not in r and r["verified"] is not None
    }
    unequal = [c for c, equal in verdicts.items() if not equal]
    optimized = [r for r in cells if r and r.get("binary_proved")]
    all_proved = bool(optimized) and all(r.get("proved") for r in optimized)
    equal = "proved" if all_proved else "yes" if verdicts else "-"
    parts = [f"not {', '.join(unequal)}" if unequal else equal]
    binaries = {r["configuration"]: r["binary_verified"] for r in cells if r and r.get("binary_verified")}
    if wrong := [c for c, equal in binaries.items() if False in equal]:
        parts.append(f"binary of {', '.join(wrong)} wrong")
    elif binaries and not unequal and all(all(equal) for equal in binaries.values()):
        too = all_proved and all(all(r["binary_proved"]) for r in optimized)
        parts.append("its binary too" if too else "in the binary too")
    if any(False in r.get("stock_binary_verified", ()) for r in cells if r):
        parts.append("stock's binary wrong")
    return ", ".join(parts)


def _seconds(run: RecordedRun, model: str, target: str) -> tuple[str, str]:
    """Returns eqsat's seconds and the others of its first configuration that has figures."""
    record = next((r for c in run.optimized if (r := run.get(model, target, c))), None)
    if record is None:
        return "-", "-"
    own = total(record, OWN_STAGES)
    return f"{own:.1f}", f"{total(record) - own:.1f}"


def failures(run: RecordedRun) -> Table:
    """Returns the table of cells that failed."""
    rows = ((*at, r["error"]) for at, r in run.records.items() if "error" in r)
    return Table("Cells that failed", "", ("model", "target", "configuration", "error"), tuple(rows), words=4)


def figures(run: RecordedRun, model: str, target: str) -> list[Table]:
    """Returns the tables of all known figures of a model on a target, with a column per configuration."""
    records = {c: r for c in run.configurations if (r := run.get(model, target, c))}
    least = run.bound(model, target) or {}
    shown: dict[str, Callable[[Record], str]] = {
        "cycles to the baseline's": lambda r: ratio(run.to_baseline(*place(r))),
        f"over the roofline of {number(least.get('roofline'))}": lambda r: ratio(run.over(*place(r))),
        f"over the bound by operators, {number(least.get('operators'))}": lambda r: ratio(
            run.over(*place(r), "operators")
        ),
        "MAC utilisation": lambda r: share(run.utilisation(*place(r))),
        "verified to the bit": _of(lambda equal: "yes" if equal else "no", "verified"),
        "largest difference": _of(str, "max_difference"),
        "weights in the graph, bytes": _of(number, "weight_bytes"),
        ".tflite file": _of(number, "tflite_bytes"),
        "operators on the CPU": _of(number, "cpu_operators"),
        "e-nodes": _of(number, "e_nodes"),
        "end of the saturation": _of(_each, "stop"),
        "extraction gap": lambda r: _gap(r.get("gap")) if r.get("stop") else "-",
        "graph taken": _of(_each, "chosen"),
        **{f"seconds: {name_stage(stage)}": _of("{:.2f}".format, "seconds", stage) for stage in STAGES},
        "seconds in all": lambda r: f"{total(r):.2f}",
        "peak memory of the compilation, MiB": _of(number, "peak_mib"),
    }
    cells = ((name, *map(cell, records.values())) for name, cell in shown.items())
    rows = tuple(row for row in cells if set(row[1:]) - {"", "-"})
    known = {c: graph_figures(r) for c, r in records.items()}
    return [*figure_tables(known, ratios=False), Table("Search", "", ("search", *records), rows)]


def _of(shown: Callable[[Any], str], *path: str) -> Callable[[Record], str]:
    """Returns the text of a record's field, by the names that lead to it; "-" without one."""

    def cell(record: Record) -> str:
        value: Any = record
        for name in path:
            value = None if value is None else value.get(name)
        return "-" if value is None else shown(value)

    return cell


def _each(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _gap(gap: float | None) -> str:
    return "no bound" if gap is None else "proved" if gap == 0 else f"{gap:.2%}"


def _mean(ratios: Mapping[str, float]) -> str:
    return f"{geometric_mean(ratios.values()):.3f}" if ratios else "-"


def _number(x: float | None, form: str) -> str:
    return "-" if x is None else format(x, form)
