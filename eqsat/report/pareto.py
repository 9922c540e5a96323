"""The chart of the Pareto set of cycles and memory, as SVG text to put into a page.

Text stays text, in the page's own colour; nothing is fetched.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from eqsat.report.sides import Side, Sides

#: Placeholder for the text colour of the page, which its style sheet sets.
_INK = "#010203"
_STYLE: Any = {  # matplotlib names each key that there is
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "eqsat",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
#: Inches.
_SIZE = 9.52, 3.4
#: Distance of two points, across and up, below which their numbers would overlap, in typographic points.
_NEAR = 14.0, 9.0
#: Length of an axis over the largest value on it, so that a number fits beside its point.
_ROOM = 1.1


def pareto(points: Sequence[Mapping[str, Any]], sides: Sides) -> str:
    """Returns the chart of cycles against SRAM and against flash; "" for a single point.

    It shows the Pareto set, each point with its number, and the graphs before.
    """
    known = [s for s in sides.before if s.figures.calibrated is not None and s.figures.sram is not None]
    if len(points) + len(known) < 2:
        return ""
    out = io.StringIO()
    with rc_context(_STYLE):
        made = Figure(figsize=_SIZE)
        _draw(made, made.subplots(1, 2), points, known)
        made.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")


def _draw(made: Figure, panels: Any, points: Sequence[Mapping[str, Any]], known: Sequence[Side]) -> None:
    """Draws the points and the graphs before, `known`."""
    for axes, memory, label in zip(panels, ("sram", "flash"), ("SRAM in use", "commands and weights in flash")):
        for name, fits, colour in (("Pareto set", True, "#009e73"), ("of it too large", False, "#d55e00")):
            some = [(p[memory] / 1024, p["cycles"]) for p in points if p["fits"] == fits]
            if some:
                axes.scatter(*zip(*some), s=36, color=colour, label=name, zorder=3)
        for marker, side in zip("s^", known):
            used = getattr(side.figures, memory)
            if used is not None:
                axes.scatter(
                    [used / 1024],
                    [side.figures.calibrated],
                    s=36,
                    marker=marker,
                    color="#888888",
                    label=side.name,
                    zorder=2,
                )
        axes.set(xlabel=f"{label}, KiB", ylabel="cycles")
        axes.set_xlim(0, _ROOM * axes.dataLim.x1)
        _from_zero(axes)
    panels[-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    made.tight_layout()
    for axes, memory in zip(panels, ("sram", "flash")):
        _number(axes, [(p[memory] / 1024, p["cycles"]) for p in points])


def _number(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    """Writes the number of each point beside it; those whose numbers would overlap share one text.

    The limits of the axes and the layout have to be final.
    """
    placed = axes.transData.transform(points) * 72 / axes.figure.dpi
    groups: list[list[int]] = []
    for i, at in enumerate(placed):
        shared = next((g for g in groups if (abs(placed[g[0]] - at) < _NEAR).all()), None)
        if shared is None:
            groups.append([i])
        else:
            shared.append(i)
    for group in groups:
        text = ", ".join(map(str, group))
        axes.annotate(text, points[group[0]], textcoords="offset points", xytext=(5, 4), fontsize=8)


def _from_zero(axes: Any) -> None:
    """Starts the axis at 0, since the eye compares lengths; labels are like 300k."""
    axes.set_ylim(0, _ROOM * axes.dataLim.y1)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(True, axis="y", alpha=0.25)
