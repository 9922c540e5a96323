"""Charts of a benchmark run, as SVG text to put into a page."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from eqsat.bench.log import Record
from eqsat.report.data import KINDS, OWN_STAGES, STAGES, RecordedRun
from eqsat.report.figures import figure
from eqsat.search.clock import called

#: Colours of kinds: greys and blues for arithmetic, warm ones for data movement.
KIND_COLOURS = dict(
    zip(KINDS, ("#808792", "#0072b2", "#56b4e9", "#9ecae1", "#bdbdbd", "#f0e442", "#d55e00", "#e69f00"))
)
_GREYS, _WARM = (
    ("#d9d9d9", "#bdbdbd", "#969696", "#d9d9d9", "#bdbdbd"),
    ("#cc79a7", "#9ecae1", "#0072b2", "#009e73", "#f0e442", "#56b4e9", "#e69f00", "#d55e00"),
)
STAGE_COLOURS = dict(zip(STAGES, _GREYS + _WARM))

#: Most inches of a legend's entry.
_ENTRY = 2.3
#: Characters of a label per inch.
_CHARACTERS = 11

Bars = Sequence[tuple[str, Mapping[str, float]]]


def cycles_by_kind(run: RecordedRun, configuration: str) -> str:
    """Returns the chart of each model's baseline and, below it, `configuration`, for each target.

    Lengths are shares of the baseline's cycles.
    """

    def pair(model: str, target: str) -> Bars:
        base, record = run.baseline(model, target), run.get(model, target, configuration)
        if not base or not record:
            return []
        return [(model, _shares(base, base["cycles"])), ("", _shares(record, base["cycles"]))]

    return _stacked(
        run,
        pair,
        KIND_COLOURS,
        "cycles as a share of the baseline's (upper bar); lower bar: " + configuration,
        PercentFormatter(1),
    )


def seconds_by_stage(run: RecordedRun, configuration: str) -> str:
    """Returns the chart of wall-clock seconds of `configuration` by stage, for each target.

    ExecuTorch's are grey.
    """

    def one(model: str, target: str) -> Bars:
        record = run.get(model, target, configuration)
        return [(model, record["seconds"])] if record else []

    names = {k: f"{called(k)} ({'eqsat' if k in OWN_STAGES else 'ExecuTorch'})" for k in STAGE_COLOURS}
    return _stacked(run, one, STAGE_COLOURS, f"wall seconds, {configuration}", None, names)


def _shares(record: Record, whole: int) -> dict[str, float]:
    return {k: v / whole for k, v in record["by_kind"].items()}


def _stacked(
    run: RecordedRun,
    bars: Callable[[str, str], Bars],
    colours: Mapping[str, str],
    label: str,
    formatter: Any,
    names: Mapping[str, str] | None = None,
) -> str:
    """Returns a panel of bars for each target, stacked by the keys of `colours`; "" without bars.

    bars: called with a model and a target; returns (name, {key: length}).
    label: of the axis of lengths.
    formatter: of that axis, None for plain numbers.
    names: names of keys in the legend, if they differ from the keys.
    """
    panels = {t: [b for m in run.models for b in bars(m, t)] for t in run.targets}
    panels = {t: b for t, b in panels.items() if b}
    if not panels:
        return ""
    colours = {k: c for k, c in colours.items() if any(k in lengths for b in panels.values() for _, lengths in b)}
    longest = max(3, *(len(b) for b in panels.values()))
    width = 1.6 + 3.8 * len(panels)  # inches
    columns = min(4, int(width / _ENTRY))
    label = textwrap.fill(label, int(width * _CHARACTERS))
    legend = 0.25 + 0.2 * -(-len(colours) // columns)
    height = 0.9 + 0.23 * longest + legend + 0.15 * label.count("\n")

    def draw(made: Any, row: list[Any]) -> None:
        for axes, (target, stack) in zip(row, panels.items()):
            _draw_bars(axes, stack, colours)
            axes.set_title(target, fontsize=10)
            if formatter:
                axes.xaxis.set_major_formatter(formatter)
        handles = [Rectangle((0, 0), 1, 1, color=c) for c in colours.values()]
        made.legend(
            handles, [(names or {}).get(k, k) for k in colours], loc="lower center", ncols=columns, frameon=False
        )
        made.supxlabel(label, fontsize=9, y=legend / height)
        made.tight_layout(rect=(0, (legend - 0.1) / height, 1, 1))

    return figure(draw, width, height, len(panels))


def _draw_bars(axes: Any, stack: Bars, colours: Mapping[str, str]) -> None:
    """Returns the bars of one panel, from the top down."""
    left = [0.0] * len(stack)
    rows: list[float] = []
    for name, _ in stack:  # a bar without a name belongs to the one above
        rows.append(rows[-1] + (1.25 if name else 0.85) if rows else 0.0)
    for kind, colour in colours.items():
        widths = [values.get(kind, 0.0) for _, values in stack]
        if any(widths):
            axes.barh(rows, widths, left=left, color=colour, height=0.82, linewidth=0)
        left = [a + b for a, b in zip(left, widths)]
    axes.set_yticks(rows, [name for name, _ in stack])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(rows[-1], 2) + 0.6, -0.6)
    axes.grid(True, axis="x", alpha=0.25)
    axes.set_axisbelow(True)
