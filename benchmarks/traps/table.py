"""The findings as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.about import as_text, markdown_table
from benchmarks.traps.causes import CAUSES, Cause, cause_of
from benchmarks.traps.hunt import Finding

_HEADER = ("Vela", "target", "graph", "change", "shape", "Vela's total", "corrected", "by commands", "commands")


def table(found: Sequence[Finding], about: Mapping[str, Any]) -> tuple[str, list[Finding]]:
    """Returns the text, and the findings without a known cause.

    about: the content of run.json.
    """
    unknown = [f for f in found if cause_of(f) is None]
    lines = [
        "# Traps of Vela's estimate",
        "",
        "Graphs of one operator of which Vela's total and the price of the commands are far from each other, and changes of them that cost a device nothing or a",
        "known little for which Vela's total falls further than that price; of each the smallest shape (height, width, channels) that shows it.",
        "Cycles before -> after the change. Made by `python -m benchmarks.traps`; a line per finding is in `findings.jsonl`.",
        "",
        f"{as_text(about)}. Findings of Vela {', '.join(dict.fromkeys(f.vela for f in found))}.",
        "",
    ]
    for cause in CAUSES:
        mine = [f for f in found if cause_of(f) is cause]
        if mine:
            lines += [f"## {_capital(cause.title)}", "", _about(cause, mine), "", *_rows(mine)]
    if unknown:
        lines += ["## Not explained yet", "", *_rows(unknown)]
    return "\n".join(lines), unknown


def _about(cause: Cause, found: Iterable[Finding]) -> str:
    versions = ", ".join(dict.fromkeys(f.vela for f in found))
    state = "The corrected total is without it." if cause.corrected else "The corrected total has it too."
    return f"`{cause.source}`. Seen with {versions}. {state}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rows(found: Iterable[Finding]) -> list[str]:
    return markdown_table(_HEADER, map(_row, found), names=5)


def _row(f: Finding) -> list[str]:
    pairs = ((getattr(f.before, k), getattr(f.after, k)) for k in ("vela", "corrected", "price", "commands"))
    shown = (f"{a:,} -> {b:,}" if f.change else f"{a:,}" for a, b in pairs)
    shape = "x".join(map(str, f.shape))
    return [f.vela, f.target, f.graph, f.change or "none", shape, *shown]
