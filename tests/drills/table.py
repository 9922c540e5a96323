"""The record of the drills as Markdown."""

from __future__ import annotations


def markdown(records: list[dict]) -> str:
    """A row per drill."""
    verdict = {True: "yes", False: "**no**", None: "not possible here"}
    passed = sum(r["passed"] is True for r in records)
    out = [
        f"# Drills\n\n{passed} of {len(records)} went as expected.\n",
        "| drill | done | expected | observed | passed |",
        "|---|---|---|---|---|",
    ]
    for r in records:
        cells = (r["drill"], r["done"], r["expected"], r["observed"], verdict[r["passed"]])
        out.append("| " + " | ".join(" ".join(c.replace("|", "/").split()) for c in cells) + " |")
    return "\n".join(out) + "\n"
