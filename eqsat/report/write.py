"""Writes the report of a run: `report.md`, `index.html` and a page per model and target, of the same tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from eqsat.bench.cells import BEST, LITERT, RANKED_BY, STOCK
from eqsat.bench.records import ChosenGraphs, Record, place
from eqsat.ground.files import ensure_directory, write_atomically
from eqsat.ground.table import Table, kib, number, ratio, share
from eqsat.ground.table import markdown as lines
from eqsat.report import compiled
from eqsat.report.compiled import Side, Sides
from eqsat.report.data import (
    KIND_COLOURS,
    OWN_STAGES,
    STAGES,
    RecordedRun,
    RunComparison,
    changes,
    geometric_mean,
    graph_figures,
    total,
)
from eqsat.report.page import Bars, Note, Part, Section, page
from eqsat.search.clock import name_stage
from eqsat.search.figures import GraphFigures
from eqsat.search.figures import tables as figure_tables
from eqsat.vela.facts import is_table_by_default


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
        'Geometric means over the models. "To stock", "to stock-best" and "to peer" are ratios of calibrated cycles: '
        "to stock's, to those of stock with the best settings of Vela and layouts of inputs and outputs, and to the "
        "best peer (stock, stock-best, or LiteRT if it leaves nothing to the CPU). "
        '"Worst" is the largest ratio to the best peer (without peers: to stock), with its model. "Losses" is the '
        "number of models that take more cycles than with stock. "
        '"Vela\'s total", "SRAM" (in use at once) and ".pte" are ratios to stock\'s. '
        '"Roofline" is Vela\'s total divided by the longest of three times at the full rates that Vela has configured: '
        "of all MACs, of reading all weights, and of reading the inputs and writing the outputs. "
        '"Operators" is Vela\'s total divided by the sum, over all operators, of the time of their MACs or of reading '
        "their weights, whichever is longer. "
        '"MACs" is the share of all cycles that the MACs need at the full rate (an arithmetic mean).'
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


def write(run: RecordedRun, directory: Path, comparison: RunComparison | None = None) -> list[Path]:
    """Writes the report into `directory` and returns the paths of its files. Raises InputError."""
    ensure_directory(directory, "--output")
    sections = _sections(run, comparison)
    head = Section("", [Note(text) for text in notes(run)])
    charts = [chart for c in run.optimized for t in run.targets for chart in by_kind(run, c, t)]
    out = {
        "report.md": markdown(run, comparison).encode(),
        "index.html": page("Benchmark report", [head, *sections, *([Section("Charts", charts)] if charts else [])]),
    }
    for model, target in dict.fromkeys(at[:2] for at in run.records):
        shown = _of_model(run, model, target)
        out[page_name(model, target)] = page(f"{model} on {target}", shown, {"all models": "index.html"})
    for name, data in out.items():
        write_atomically(directory / name, data)
    return [directory / name for name in out]


def markdown(run: RecordedRun, comparison: RunComparison | None = None) -> str:
    """Returns the report as Markdown."""
    shown = (part for s in _sections(run, comparison) for part in s.parts if isinstance(part, Table))
    return "\n".join(["# Benchmark report", "", *(f"* {n}" for n in notes(run)), *lines(shown)]) + "\n"


def _sections(run: RecordedRun, comparison: RunComparison | None) -> list[Section]:
    """Returns the tables of the report; those without data are left out."""
    each = {
        "Where configurations stand": [standings(run)],
        "Roofline and memory": [bounds(run, t) for t in run.targets],
        "Models": [models(run, t) for t in run.targets],
        "Cells that failed": [failures(run)],
    }
    kept = {title: [t for t in some if t.rows] for title, some in each.items()}
    if comparison:
        kept["Against the other run"] = [changes(comparison)]
    return [Section(title, some) for title, some in kept.items() if some]


def by_kind(run: RecordedRun, configuration: str, target: str) -> Iterator[Bars]:
    """Yields the bars of each model's baseline and of a configuration, as shares of the baseline's cycles."""
    rows = []
    for model in run.models:
        base, record = run.baseline(model, target), run.get(model, target, configuration)
        if base and record and base["cycles"]:
            for name, r in ((model, base), ("", record)):
                parts = {k: v / base["cycles"] for k, v in r["by_kind"].items()}
                rows.append((name, parts, f"{r['cycles'] / base['cycles']:.0%}"))
    if rows:
        note = "Shares of Vela's total of the baseline, which is the upper bar of each model."
        yield Bars(f"Vela's cycles by kind of operator: {configuration}, {target}", note, rows, KIND_COLOURS)


def _of_model(run: RecordedRun, model: str, target: str) -> list[Section]:
    """Returns the page of a model on a target, with the baseline's graph beside each of eqsat's."""
    records = {c: r for c in run.configurations if (r := run.records.get((model, target, c)))}
    failed: list[Part] = [Note(f"{c} failed: {r['error']}", "error") for c, r in records.items() if "error" in r]
    found = {c: chosen for c, r in records.items() if "error" not in r and (chosen := run.find_chosen(r))}
    baseline = run.baseline(model, target)
    first = baseline["configuration"] if baseline else STOCK
    out = [Section("Figures", [*failed, *figures(run, model, target)])]
    compared = [c for c in run.optimized if first in found and c in found]
    for c in compared:
        for d in range(len(found[c].graphs)):
            whose = c if len(found[c].graphs) == 1 else f"{c}, delegate {d}"
            both = Sides(f"{model} {target}", (_side(first, found[first], d),), _side(c, found[c], d), {}, None)
            out.append(Section(f"Costs: {whose}", compiled.costs(both)))
            out.append(Section(f"Graphs: {whose}", compiled.pictures(both, f"{model}.{target}.{whose}")))
    others = [c for c in found if c not in (first, *compared)]
    rest = [compiled.every_operator(c, rows) for c in others for rows in found[c].rows]
    return [*out, *([Section("Other configurations", rest)] if rest else [])]


def _side(configuration: str, chosen: ChosenGraphs, delegate: int) -> Side:
    return Side(configuration, chosen.graphs[delegate], chosen.names[delegate], chosen.rows[delegate])


_FLATTERED = (
    " On U55 and U65 the comparison flatters it: the estimate of this version of Vela takes a convolution with a ReLU "
    "of its own as faster than one whose RESCALE clips, which is how ExecuTorch lowers it."
)


def notes(run: RecordedRun) -> list[str]:
    """Returns how to read the figures, and the versions and machine that made them."""
    out = [
        "Calibrated cycles are eqsat's price of the compiled commands, calibrated to measurements. All other cycles "
        f"are the estimate of Vela {' and '.join(run.vela)} for the whole network. A ratio is a figure divided by "
        "stock's, so that below 1 is less. A geometric mean is over the models that have both figures.",
        '"Verified" means that the outputs equal those of the graph before layout passes bit for bit, by a proof '
        '("proved") or on samples ("yes").',
    ]
    if any(p[2] == LITERT for p in run.records):
        out.append(
            "LiteRT's int8 model comes from another quantizer, with other scales and another arithmetic. So only its "
            "cycles can be compared, and only if no operator stays on the CPU, whose cycles Vela does not count."
            + (_FLATTERED if any(map(is_table_by_default, run.vela)) else "")
        )
    if run.about.keys() >= {"versions", "processors", "memory_mib", "jobs"}:
        made = f"Commit {run.about['commit']}. " if "commit" in run.about else ""
        out.append(
            f"{made}Versions: {', '.join(f'{k} {x}' for k, x in run.about['versions'].items() if x != 'absent')}. "
            f"Machine: {run.about['processors']} processors, "
            f"{run.about['memory_mib']:,} MiB; {run.about['jobs']} cell(s) at a time."
        )
    return out
