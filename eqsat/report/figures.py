"""Figures as SVG text to put into a page, drawn by matplotlib.

Text stays text, in the page's own colour; nothing is fetched.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402 - after the backend is chosen

#: Placeholder for the text colour of the page, which its style sheet sets.
_INK = "#010203"
#: Okabe and Ito's colours, which people with red-green colour blindness can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
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


def figure(draw: Callable[[Any, list[Any]], None], width: float, height: float, panels: int = 1) -> str:
    """Returns an `<svg>` element of `width` x `height` inches, with panels side by side.

    draw: called with the figure and its axes.
    """
    with pyplot.rc_context(_STYLE):
        made, axes = pyplot.subplots(1, panels, figsize=(width, height), squeeze=False)
        try:
            draw(made, list(axes[0]))
            out = io.StringIO()
            made.savefig(out, format="svg", metadata={"Date": None})
        finally:
            pyplot.close(made)
    text = out.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")
