"""The findings as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.about import as_text
from benchmarks.traps.causes import CAUSES, Cause, cause_of
from benchmarks.traps.hunt import Finding
from eqsat.report.data import geometric_mean

_HEADER = (
    "| Vela | target | graph | change | shape | Vela's total | corrected | by commands | commands |",
    "|---|---|---|---|---|---|---|---|---|",
)


def table(
    found: Sequence[Finding], totals: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> tuple[str, list[Finding]]:
    """Returns the text, and the findings without a known cause.

    totals: those of saved graphs.
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
    ]
    for cause in CAUSES:
        mine = [f for f in found if cause_of(f) is cause]
        if mine:
            lines += ["", f"## {_capital(cause.title)}", "", _about(cause, mine), "", *_HEADER, *map(_row, mine)]
    if unknown:
        lines += ["", "## Not explained yet", "", *_HEADER, *map(_row, unknown)]
    return "\n".join([*lines, *_of_networks(totals)]) + "\n", unknown


def _about(cause: Cause, found: Iterable[Finding]) -> str:
    versions = ", ".join(dict.fromkeys(f.vela for f in found))
    state = "The corrected total is without it." if cause.corrected else "The corrected total has it too."
    return f"`{cause.source}`. Seen with {versions}. {state}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(f: Finding) -> str:
    pairs = ((getattr(f.before, k), getattr(f.after, k)) for k in ("vela", "corrected", "price", "commands"))
    shown = (f"{a:,} -> {b:,}" if f.change else f"{a:,}" for a, b in pairs)
    shape = "x".join(map(str, f.shape))
    return f"| {f.vela} | {f.target} | {f.graph} | {f.change or 'none'} | {shape} | {' | '.join(shown)} |"


def _of_networks(totals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the section on the totals of networks, no line if there are none."""
    if not totals:
        return []
    lines = [
        "",
        "## Stock's graphs by both totals",
        "",
        "Of saved graphs that the corrected total changes; the mean is over all of them.",
        "",
        "| Vela | target | network | Vela's total | corrected | ratio |",
        "|---|---|---|--:|--:|--:|",
    ]
    for vela, target in dict.fromkeys((t["vela"], t["target"]) for t in totals):
        mine = [t for t in totals if (t["vela"], t["target"]) == (vela, target)]
        for t in mine:
            if t["corrected"] != t["cycles"]:
                name = t["name"] + f", delegate {t['delegate']}" * bool(t["delegate"])
                ratio = f"{t['corrected'] / t['cycles']:.3f}"
                lines.append(f"| {vela} | {target} | {name} | {t['cycles']:,} | {t['corrected']:,} | {ratio} |")
        mean = geometric_mean([t["corrected"] / t["cycles"] for t in mine])
        lines.append(f"| {vela} | {target} | **all {len(mine)}** | | | **{mean:.3f}** |")
    return lines
