"""Records as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.about import markdown_table
from benchmarks.cost_models.run import Cell

#: Figures of a cost model on a target, and of a cell.
_SUMMARY = ("cells", "median of medians", "worst median", "worst p95", "Spearman: median", "worst", "worst regret")
_SUMMARY += ("ms", "ms first")
_CELL = ("graphs", "totals", "worst / best", "MAPE", "median", "p95", "Spearman", "Kendall", "regret", "ms", "ms first")


def _share(x: float | None) -> str:
    return "-" if x is None else f"{100 * x:.2f}"


def _rank(x: float | None) -> str:
    return "-" if x is None else f"{x:.3f}"


def markdown(cells: Sequence[Cell]) -> str:
    """Returns a summary per target and cost model, and a row per cell and cost model.

    Errors and regret are in percent.
    """
    if not cells:
        return "No cells.\n"
    records = [r for c in cells for r in c.records()]
    lines = [
        "Errors (of each prediction, against Vela's total of the whole graph) and regret (of the model's pick, against the",
        "best of the sample) in percent.",
        "Counts and bytes are scaled by their median ratio to cycles first. `-`: constant truth or predictions, no rank.",
        "",
    ]
    by_model: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in records:
        by_model.setdefault((r["target"], r["cost_model"]), []).append(r)
    targets, names = (dict.fromkeys(r[key] for r in records) for key in ("target", "cost_model"))
    pairs = [(t, n) for t in targets for n in names if (t, n) in by_model]
    lines += markdown_table(("target", "cost model", *_SUMMARY), ([*p, *_summary(by_model[p])] for p in pairs), names=2)
    rows = [
        [
            *(r[k] for k in ("model", "target", "cost_model", "samples", "distinct_totals")),
            f"{r['worst'] / r['best']:.2f}",
            *(_share(r[k]) for k in ("mape", "median", "p95")),
            *(_rank(r[k]) for k in ("spearman", "kendall")),
            _share(r["regret"]),
            *(f"{r[k]:.1f}" for k in ("ms", "ms_first")),
        ]
        for r in sorted(records, key=lambda r: (r["model"], r["target"]))
    ]
    lines += markdown_table(("model", "target", "cost model", *_CELL), rows, names=3)
    few = [f"{c.model} on {c.target}: {len(c.truth)}" for c in cells if len(c.truth) < c.wanted]
    if few:
        lines += [
            f"Fewer distinct graphs than asked for, as the e-graph holds or the extractions show no more: {', '.join(few)}.",
            "",
        ]
    return "\n".join([*lines, *_pricing(cells)])


def _summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the figures of one cost model on one target, over its cells."""
    rho, medians = [r["spearman"] for r in records if r["spearman"] is not None], [r["median"] for r in records]
    return [
        str(len(records)),
        _share(statistics.median(medians)),
        _share(max(medians)),
        _share(max(r["p95"] for r in records)),
        _rank(statistics.median(rho) if rho else None),
        _rank(min(rho, default=None)),
        _share(max(r["regret"] for r in records)),
        *(f"{statistics.median(r[k] for r in records):.1f}" for k in ("ms", "ms_first")),
    ]


def _pricing(cells: Sequence[Cell]) -> list[str]:
    """Returns the table of the seconds that prices take."""
    rows = [
        [c.model, c.target, name, c.e_nodes, f"{cold:.2f}", f"{warm:.3f}", f"{1000 * warm / max(1, c.e_nodes):.3f}"]
        for c in sorted(cells, key=lambda c: (c.model, c.target))
        for name, (cold, warm) in c.price_seconds.items()
    ]
    head = ("model", "target", "cost model", "e-nodes", "cold s", "warm s", "warm s per 1,000 e-nodes")
    title = "Seconds for the prices of a whole e-graph, from an empty cache and again:"
    return [title, "", *markdown_table(head, rows, names=3)]
