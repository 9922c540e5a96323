"""Writes the report of a run: `report.md`, `index.html` and a page per model and target, of the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eqsat.bench.cells import LITERT, STOCK
from eqsat.bench.records import ChosenGraphs
from eqsat.ground.files import ensure_directory, write_atomically
from eqsat.ground.table import Table
from eqsat.ground.table import markdown as lines
from eqsat.report import compiled
from eqsat.report.compare import RunComparison, changes
from eqsat.report.data import KIND_COLOURS, RecordedRun
from eqsat.report.page import Bars, Note, Part, Section, page
from eqsat.report.sides import Side, Sides
from eqsat.report.tables import bounds, failures, figures, models, page_name, standings
from eqsat.vela.facts import is_table_by_default


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
        "Calibrated cycles are the price of the compiled commands, calibrated to measurements. Others are the estimate "
        f"of Vela {' and '.join(run.vela)} for the whole network. "
        "A ratio is cycles by stock's: below 1 is fewer. A geometric mean is "
        "over the models "
        "that have both.",
        '"Verified" is equal, to the bit, to the graph before layout passes on the TOSA reference model, over '
        "extreme and random inputs.",
    ]
    if any(p[2] == LITERT for p in run.records):
        out.append(
            "LiteRT's int8 model comes from another quantizer, with other scales and another arithmetic, so only its "
            "cycles are comparable, and only if no operator stays on the CPU: Vela does not count those."
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
