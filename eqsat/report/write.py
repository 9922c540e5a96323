"""Writes the report of a run: `report.md`, `index.html` and a page per model and target.

None of them fetches anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqsat.bench.cells import BEST, LITERT, STOCK
from eqsat.bench.log import Record
from eqsat.bench.records import ChosenGraphs
from eqsat.ground.files import InputError, write_atomically
from eqsat.report import graphs
from eqsat.report.compare import RunComparison
from eqsat.report.compare import markdown as comparison_markdown
from eqsat.report.data import (
    KINDS,
    OWN_STAGES,
    STAGES,
    RecordedRun,
    Summary,
    file_bytes,
    geometric_mean,
    pte_bytes,
    sram,
    total,
)
from eqsat.report.environment import environment, number, ratio
from eqsat.report.sides import node_costs
from eqsat.report.table import ReportTable
from eqsat.report.tables import tables
from eqsat.search.clock import called
from eqsat.vela.facts import facts_of


def write(run: RecordedRun, directory: Path, comparison: RunComparison | None = None) -> list[Path]:
    """Writes the report into `directory` and returns the paths of its files.

    Raises InputError if the drawing library is missing or the place is not writable.
    """
    made = environment()
    from eqsat.report import pictures

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"cannot make {directory}: {e.strerror or e}") from e
    charts = [
        (title, picture(run, c))
        for c in run.optimized
        for title, picture in (
            (f"Cycles by kind of operator: {c}", pictures.cycles_by_kind),
            (f"Seconds by stage: {c}", pictures.seconds_by_stage),
        )
    ]
    pages = {
        (m, t): _page(run, m, t) for m in run.models for t in run.targets if any(p[:2] == (m, t) for p in run.records)
    }
    common = {
        "run": run,
        "kinds": KINDS,
        "stages": STAGES,
        "called": called,
        "own": OWN_STAGES,
        "total": total,
        "litert": LITERT,
        "baseline": run.configurations[0],
        "sram": sram,
        "file": file_bytes,
        "pte": pte_bytes,
    }
    out = {
        "report.md": markdown(run, comparison),
        "index.html": made.get_template("index.html").render(
            **common,
            summaries=run.summaries(),
            tables=tables(run),
            charts=[(t, c) for t, c in charts if c],
            pages=pages,
            comparison=comparison,
            notes=notes(run),
        ),
    }
    for (model, target), page in pages.items():
        out[f"{page['name']}.html"] = made.get_template("model.html").render(
            **common, model=model, target=target, page=page
        )
        for name, data in page["explorer"].items():
            out[name] = json.dumps(data)
    for name, text in out.items():
        write_atomically(directory / name, text.encode())
    return [directory / name for name in out]


def _page(run: RecordedRun, model: str, target: str) -> dict[str, Any]:
    """Returns the values of the page of a model on a target, with stock's graph beside each of eqsat's."""
    records = {c: run.records[model, target, c] for c in run.configurations if (model, target, c) in run.records}
    good = {c: r for c, r in records.items() if "error" not in r}
    found = {c: chosen for c, r in good.items() if (chosen := run.chosen(r))}
    views, explorer = _views(run, model, target, found)
    dearest = {
        c: sorted((row for rows in chosen.rows for row in rows), key=lambda row: -row.cycles)[:25]
        for c, chosen in found.items()
    }
    operators = sorted(
        {op for r in good.values() for op in r["by_operator"]},
        key=lambda op: (-max(r["by_operator"].get(op, {"cycles": 0})["cycles"] for r in good.values()), op),
    )
    return {
        "name": f"{model}.{target}",
        "records": records,
        "views": views,
        "explorer": explorer,
        "dearest": dearest,
        "operators": operators,
        "memories": sorted({m for r in records.values() for m in r.get("memory", ())}),
    }


def _views(
    run: RecordedRun, model: str, target: str, found: Mapping[str, ChosenGraphs]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns each delegate's graph before and after each of eqsat's configurations, and the files of both.

    found: the chosen graphs by configuration.
    The files are those of Model Explorer, by name.
    """
    views, explorer = list[dict[str, Any]](), dict[str, Any]()
    baseline = run.baseline(model, target)
    first = baseline["configuration"] if baseline else STOCK
    for i, c in enumerate(run.optimized):
        if first not in found or c not in found:
            continue
        old, made = found[first], found[c]
        for d, (before, after) in enumerate(zip(old.graphs, made.graphs, strict=True)):
            gone, new = graphs.marks(before, after)
            a, b = (node_costs(k.graphs[d], k.names[d], k.rows[d]) for k in (old, made))
            stem = f"{model}.{target}.{i}.{d}"
            name, cycles = f"{stem}.model-explorer.json", f"{stem}.cycles.json"
            both = {first: (before, gone, "gone"), c: (after, new, "new")}
            explorer[name] = graphs.model_explorer(f"{model} {target}", both)
            explorer[cycles] = graphs.node_data({first: a, c: b})
            views.append(
                {
                    "configuration": c,
                    "delegate": d,
                    "baseline": first,
                    "before": graphs.svg(before, gone, "gone", a),
                    "after": graphs.svg(after, new, "new", b),
                    "changed": graphs.changes(before, after),
                    "explorer": name,
                    "cycles": cycles,
                }
            )
    return views, explorer


def markdown(run: RecordedRun, comparison: RunComparison | None = None) -> str:
    """Returns the report as Markdown: summary, a table per target, failures."""
    lines = [
        "# Benchmark report",
        "",
        *(f"* {n}" for n in notes(run)),
        "",
        "## Summary",
        "",
        f"To stock's, {'by the total of Vela' if run.decides == 'cycles' else f'{run.decides} cycles'}.",
        "",
        "| target | configuration | models | geometric mean | best | worst | losses |",
        "|---|---|--:|--:|---|---|---|",
    ]
    lines += [_summary_row(s) for s in run.summaries()]
    for t in tables(run):
        lines += _section(t)
    lines += headline(run)
    for target in run.targets:
        lines += _of_target(run, target)
    if failures := run.failures():
        lines += ["", "## Cells that failed", ""]
        lines += [f"* {r['model']}, {r['target']}, {r['configuration']}: {r['error']}" for r in failures]
    if comparison:
        lines += ["", "## Against the other run", "", comparison_markdown(comparison).rstrip()]
    return "\n".join(lines) + "\n"


def _of_target(run: RecordedRun, target: str) -> list[str]:
    """Returns the section of a target, with a row per model."""
    others = [c for c in run.configurations if any((m, target, c) in run.records for m in run.models)]
    lines = [
        "",
        f"## {target}",
        "",
        "| model | " + " | ".join(others) + " | verified | eqsat s | ExecuTorch s |",
        "|---|" + "--:|" * len(others) + "---|--:|--:|",
    ]
    for model in run.models:
        cells = [run.records.get((model, target, c)) for c in others]
        if any(cells):
            row = model, *(_cell(run, r) for r in cells), _verified(cells), _seconds(run, model, target)
            lines.append(f"| {' | '.join(row)} |")
    return lines


def _section(t: ReportTable) -> list[str]:
    return ["", f"## {t.title}", "", *([t.note, ""] if t.note else []), *t.markdown()]


def headline(run: RecordedRun) -> list[str]:
    """Tables of all models on all targets, by calibrated cycles and by Vela's totals.

    They show stock's cycles, those of eqsat's first configuration, and their ratio.
    Stock at its best, if it is there, is shown by the ranking figure.
    Records without calibrated cycles have Vela's corrected totals in their place.
    """
    if not run.optimized:
        return []
    shown = [(STOCK, run.decides), *([(STOCK, "cycles")] if run.decides != "cycles" else ())]
    shown += [(BEST, run.decides)] if BEST in run.configurations else []
    return [line for peer, total in shown for line in _against(run, peer, total)]


def _against(run: RecordedRun, peer: str, total: str) -> list[str]:
    """Returns the table of one figure, "calibrated", "corrected" or "cycles" (Vela's total), beside a peer's."""
    c = run.optimized[0]
    columns = [name for t in run.targets for name in (f"{t.removeprefix('ethos-').upper()} {peer}", "eqsat", "ratio")]
    ratios: dict[str, list[float]] = {t: [] for t in run.targets}
    rows = []
    for model in run.models:
        cells: list[str] = []
        for target in run.targets:
            base, record = run.stock(model, target, peer), run.get(model, target, c)
            found = record[total] / base[total] if base and record and base.get(total) and total in record else None
            ratios[target] += [] if found is None else [found]
            cells += [*(number(r.get(total) if r else None) for r in (base, record)), ratio(found)]
        rows.append((model, *cells))
    title = f"{c} against {peer}" + ("" if total == "cycles" else f", {total} cycles")
    return [
        *_section(ReportTable(title, "", ("model", *columns), tuple(rows))),
        f"| **geometric mean** | {' | '.join(f' | | **{geometric_mean(r):.3f}**' for r in ratios.values())} |",
    ]


_FLATTERED = (
    " On U55 and U65 the comparison flatters it: the estimate of this version of Vela takes a convolution with a ReLU "
    "of its own as faster than one whose RESCALE clips, which is how ExecuTorch lowers it."
)


def notes(run: RecordedRun) -> list[str]:
    """Returns how to read the figures, and the versions and machine that made them."""
    out = [
        "Calibrated cycles are the price of the compiled commands, calibrated to measurements. Others are the estimate "
        f"of Vela {' and '.join(run.vela)} for the whole network; corrected ones leave out "
        "what it is known to charge for nothing. A ratio is cycles by stock's: below 1 is fewer. A geometric mean is "
        "over the models "
        "that have both.",
        '"Verified" is equal, to the bit, to the graph before layout passes on the TOSA reference model, over '
        "extreme and random inputs.",
    ]
    if any(p[2] == LITERT for p in run.records):
        out.append(
            "LiteRT's int8 model comes from another quantizer, with other scales and another arithmetic, so only its "
            "cycles are comparable, and only if no operator stays on the CPU: Vela does not count those."
            + (_FLATTERED if any(facts_of(v).table_by_default for v in run.vela) else "")
        )
    if run.about.keys() >= {"versions", "processors", "memory_mib", "jobs", "cold"}:
        made = f"Commit {run.about['commit']}. " if "commit" in run.about else ""
        cache = "every cell with an empty price cache" if run.about["cold"] else "all with one price cache"
        out.append(
            f"{made}Versions: {', '.join(f'{k} {x}' for k, x in run.about['versions'].items() if x != 'absent')}. Machine: "
            f"{run.about['processors']} processors, "
            f"{run.about['memory_mib']:,} MiB; {run.about['jobs']} cell(s) at a time, {cache}."
        )
    return out


def _summary_row(s: Summary) -> str:
    rest = "".join(
        f"; {len(some)} {word}" for some, word in ((s.failed, "failed"), (s.alone, "without a baseline")) if some
    )
    if not s.ratios:
        return f"| {s.target} | {s.configuration} | 0 | - | - | - | {rest[2:]} |"
    losses = f"**{len(s.losses)}**: {', '.join(s.losses)}" if s.losses else "none"
    return (
        f"| {s.target} | {s.configuration} | {len(s.ratios)} | **{s.mean:.3f}** | {s.best} {s.ratios[s.best]:.3f} | "
        f"{s.worst} {s.ratios[s.worst]:.3f} | {losses}{rest} |"
    )


def _cell(run: RecordedRun, record: Record | None) -> str:
    if record is None:
        return ""
    if "error" in record:
        return "failed"
    place = record["model"], record["target"], record["configuration"]
    found = run.to_baseline(*place, lambda r: r.get(run.decides))
    text = f"{record[run.decides]:,}"
    if record is not run.baseline(record["model"], record["target"]) and found is not None:
        text += f" (**{found:.3f}**, loss)" if found > 1 else f" ({found:.3f})"
    if left := record.get("cpu_operators"):
        text += f", {left} on the CPU"
    return text


def _verified(cells: list[Record | None]) -> str:
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


def _seconds(run: RecordedRun, model: str, target: str) -> str:
    record = next((r for c in run.optimized if (r := run.get(model, target, c))), None)
    if record is None:
        return "- | -"
    return f"{total(record, OWN_STAGES):.1f} | {total(record) - total(record, OWN_STAGES):.1f}"
