"""The record of a fuzzing run as Markdown."""

from __future__ import annotations

_ROWS = 30


def markdown(record: dict) -> str:
    """A summary by format, then the outcomes of each."""
    out = [
        f"# Fuzzing the readers\n\nCommit {record['commit']}, seed {record['seed']}. Every input is read in a process that may take 5 seconds of computing and 1 GB for it.\n",
        "| format | inputs | accepted | refused with a named error | findings | slowest (s) | memory taken (MiB) |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for f in record["formats"]:
        accepted = sum(n for k, n in f["outcomes"].items() if k.startswith("accepted"))
        found = len(f["findings"])
        out.append(
            f"| {f['format']} | {f['inputs']:,} | {accepted:,} | {f['inputs'] - accepted - found:,} | {found} | {f['slowest']:.2f} | {f['peak_mib']} |"
        )
    for f in record["formats"]:
        out += [f"\n## {f['format']}\n", "| outcome | inputs |", "|---|--:|"]
        rows = list(f["outcomes"].items())
        out += [f"| {k.replace('|', '/')} | {n:,} |" for k, n in rows[:_ROWS]]
        if rows[_ROWS:]:
            out.append(f"| {len(rows) - _ROWS} more kinds | {sum(n for _, n in rows[_ROWS:]):,} |")
        out += ["\n| mutator | inputs | accepted |", "|---|--:|--:|"]
        out += [f"| {m} | {n:,} | {a:,} |" for m, (a, n) in sorted(f["accepted_by_mutator"].items())]
        out += [f"\n* input {x['number']} ({x.get('how', '')}): {x['finding']}" for x in f["findings"]]
    return "\n".join(out) + "\n"
