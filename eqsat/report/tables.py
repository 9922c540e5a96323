"""Tables for the terminal, `report.md` and the pages: standings, bounds and excess cycles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product

from eqsat.bench.cells import BEST, STOCK
from eqsat.report.data import RecordedRun, calibrated, corrected, file_bytes, geometric_mean, pte_bytes, sram
from eqsat.report.environment import kib
from eqsat.report.table import ReportTable

#: Most operators in the table of excess cycles; the others are added up.
_NAMED = 10
#: Least share of the model's cycles of an operator in that table.
_LEAST = 0.0005


def tables(run: RecordedRun) -> list[ReportTable]:
    """Returns all tables for which the records have data."""
    every = [standings(run), *(make(run, t) for make in (bounds, excess) for t in run.targets)]
    return [t for t in every if t.rows]


def standings(run: RecordedRun) -> ReportTable:
    """Returns the table of geometric means over the models, a row per target and configuration."""
    rows, best = [], BEST in run.configurations
    for target, c in product(run.targets, run.configurations):
        figure = partial(run.by_model, target, c)
        models = sum(run.get(m, target, c) is not None for m in run.models)
        if not models:
            continue
        to_stock = figure(run.ratio) if c != STOCK else {}
        peer, utilisation = figure(run.over_peer, "cycles"), figure(run.utilisation).values()
        rows.append(
            (
                target,
                c,
                str(models),
                _mean(to_stock),
                _mean(peer),
                _mean(figure(run.to_baseline, corrected)),
                _mean(figure(run.to_baseline, calibrated)),
                _mean(figure(run.over_peer, "calibrated")),
                *([_mean(figure(run.over_best))] if best else ()),
                _worst(peer or to_stock),
                _mean(figure(run.over)),
                _mean(figure(run.over, "operators")),
                f"{sum(utilisation) / len(utilisation):.1%}" if utilisation else "-",
                _mean(figure(run.to_baseline, sram)),
                _mean(figure(run.to_baseline, pte_bytes)),
            )
        )
    return ReportTable(
        "Where configurations stand",
        "Geometric means over the models. Cycles to stock's, and to the better peer's: of stock, stock-best (in the settings "
        "of Vela and the layouts of inputs and outputs that are best by calibrated cycles) and, where it leaves nothing to "
        "the CPU, LiteRT; by Vela's own totals, by the corrected ones, and by calibrated cycles, which decide. "
        "The worst model is that of the peers, or of stock where there are none. "
        "Cycles over the roofline (the largest of MACs, weight bytes, and bytes in and out, at the full rates that Vela has "
        "configured) and over the tighter bound by operators (of each the larger of MACs and weight bytes, added up). "
        "MACs: the share of all cycles that they need at the full rate, a plain mean. SRAM in use and .pte file to stock's.",
        (
            *(
                "target",
                "configuration",
                "models",
                "to stock",
                "to peer",
                "corrected",
                "calibrated",
                "calibrated to peer",
                *(["to stock-best"] if best else ()),
                "worst",
                "roofline",
                "operators",
            ),
            *("MACs", "SRAM", ".pte"),
        ),
        tuple(rows),
        words=2,
    )


def _worst(ratios: Mapping[str, float]) -> str:
    return max((f"{x:.3f} {m}" for m, x in ratios.items()), key=lambda text: float(text.split()[0]), default="-")


def bounds(run: RecordedRun, target: str) -> ReportTable:
    """Returns the table of cycles over the roofline, MACs, SRAM in use and bytes of the file.

    It has a row per model and columns per configuration.
    """
    shown = [c for c in run.configurations if any(run.get(m, target, c) for m in run.models)]
    rows = []
    for m in run.models:
        if least := run.bound(m, target):
            row = [m, f"{least['roofline']:,.0f}", f"{least['operators']:,.0f}"]
            for c in shown:
                r = run.get(m, target, c) or {}
                row += [
                    _number(run.over(m, target, c), ".2f"),
                    _number(run.utilisation(m, target, c), ".1%"),
                    kib(sram(r)),
                    kib(file_bytes(r)),
                ]
            rows.append(tuple(row))
    each = ("over roofline", "MACs", "SRAM, KiB", "file, KiB")
    return ReportTable(
        f"Over the roofline, and memory: {target}",
        "Cycles of the roofline and of the bound by operators; cycles over the roofline, the share of them that MACs need at the full rate, SRAM "
        "in use at once, and the .pte file (LiteRT: .tflite).",
        ("model", "roofline", "by operators", *(f"{c}: {what}" for c in shown for what in each)),
        tuple(rows),
    )


def excess(run: RecordedRun, target: str) -> ReportTable:
    """Returns the table of cycles above what MACs and weights need, by Vela's operators.

    They are shares of the model's cycles, mean over the models.
    """
    found = {c: some for c in run.configurations if (some := run.excess(target, c))}
    size = {o: max(sum(f[o]) for f in found.values() if o in f) for f in found.values() for o in f}
    named = [o for o in sorted(size, key=lambda o: -size[o]) if size[o] >= _LEAST][:_NAMED]
    rows = []
    for o in [*named, "others"]:
        row = [o]
        for f in found.values():
            mine = [shares for name, shares in f.items() if name == o or o == "others" and name not in named]
            row += [f"{sum(shares[i] for shares in mine):.1%}" for i in (0, 1)]
        rows.append(tuple(row))
    return ReportTable(
        f"Where the excess lies: {target}",
        "Cycles of Vela's operators above what their MACs and weights need at the full rates, as shares of the model's cycles, mean over the models: "
        "while they compute or move data, and while they wait for memory. An operator that Vela cuts into many needs its weights once.",
        ("operator", *(f"{c}: {what}" for c in found for what in ("computing", "waiting"))),
        tuple(rows) if found else (),
    )


def _mean(ratios: Mapping[str, float]) -> str:
    return f"{geometric_mean(ratios.values()):.3f}" if ratios else "-"


def _number(x: float | None, form: str) -> str:
    return "-" if x is None else format(x, form)
