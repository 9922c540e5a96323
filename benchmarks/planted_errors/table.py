"""The tables of planted errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.study import as_text, markdown_table
from eqsat.bench.log import Record

#: The parts of verification that an error may pass, by their keys in a record.
_COLUMNS = ("outputs", "passes")
#: Ways to group errors: title of the table, and the group of an error.
_GROUPS: dict[str, Callable[[Record], str]] = {
    "inputs": lambda p: str(p["inputs"]),
    "mean after it": lambda p: f"{p['pool']} x {p['pool']}" if p["pool"] else "none",
    "dtype": lambda p: p["dtype"],
    "graph": lambda p: (
        "random graphs" if p["subject"].startswith("random-") else "heads" if "-int" in p["subject"] else "networks"
    ),
    "planted as": lambda p: "wrong rule" if p["kind"].startswith("rule ") else "edit",
    "error": lambda p: p["kind"],
}
#: The titles of the columns of figures.
_HEAD = ("equivalent", "not known", "errors", "pass outputs", "**pass**")


def summary(planted: Sequence[Record]) -> dict[str, int]:
    """Returns {what: number of errors}, over all planted errors.

    "not known" are those that neither change an output of an input that was tried nor are proved equivalent.
    """
    real = [p for p in planted if p["changes"]]
    equivalent = sum(p["equivalent"] and not p["changes"] for p in planted)
    return {
        "planted": len(planted),
        "equivalent": equivalent,
        "not known": len(planted) - len(real) - equivalent,
        "errors": len(real),
        **{c: sum(p[c] for p in real) for c in _COLUMNS},
    }


def markdown(planted: Sequence[Record], about: Mapping[str, Any]) -> str:
    """Returns the tables as Markdown, one for each way to group the errors."""
    lines = [
        "# Planted errors",
        "",
        "Near-miss edits and rules, each changing an output for an input that a directed search or the prover found.",
        "The others are left out: equivalent ones, which the prover proves equal, and those of which neither is known.",
        "How many pass: the samples of outputs, and the proof, which decides.",
        "",
        f"{as_text(about)}.",
        "",
    ]
    for title, group in {"all": lambda p: "all", **_GROUPS}.items():
        rows = []
        names = {group(p) for p in planted}
        for name in sorted(names, key=lambda n: (len(n) if n[:1].isdigit() else 0, n)):
            s = summary([p for p in planted if group(p) == name])
            figures = (s["equivalent"], s["not known"], s["errors"], *(s[c] for c in _COLUMNS[:-1]))
            rows.append([name, *figures, f"**{s['passes']}**"])
        lines += markdown_table((title, *_HEAD), rows)
    return "\n".join(lines)
