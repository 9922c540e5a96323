"""A summary of the records of a run, and its Markdown."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from eqsat.egraph.rule import Rule


def summary(records: Sequence[dict], zoo: Sequence[dict], rules: Sequence[Rule]) -> dict:
    """Returns counts over all graphs.

    rules: how many graphs each rule matched.
    """

    def total(key: str) -> int:
        return sum(r[key] for r in records)

    def counted(key: str) -> dict[str, int]:
        return dict(Counter(r[key] for r in records))

    def listed(key: str) -> Counter[str]:
        return Counter(x for r in records for x in r[key])

    fired, seconds = listed("rules"), [r["seconds"] for r in records]
    return {
        "graphs": len(records),
        "by_target": counted("target"),
        "operators": total("operators"),
        "e_nodes": total("e_nodes"),
        "evaluated": total("evaluated"),
        "stops": counted("stop"),
        "extractions": total("extracted"),
        "accepted_by_vela": total("vela"),
        "optimized": {k: n for k, n in counted("optimized").items() if k},
        "refused": dict(Counter(" ".join(x.split())[:60] for x in listed("refused").elements())),
        "seconds": {"median": round(statistics.median(seconds), 2), "mean": round(statistics.mean(seconds), 2)}
        if seconds
        else {},
        "failures": [
            {"seed": r["seed"], "target": r["target"], "what": r["failures"]} for r in records if r["failures"]
        ],
        "ops": dict(sorted(listed("ops").items())),
        "rules": {r.name: fired[r.name] for r in rules},
        "never": [r.name for r in rules if not fired[r.name]],
        "zoo": list(zoo),
    }


def markdown(s: dict, rules: Sequence[Rule]) -> str:
    """Returns the summary as Markdown."""
    lines = [
        "# Soundness at scale",
        "",
        "Made by `python -m benchmarks.random_graphs`; one line per graph is in `records.jsonl`.",
        "",
    ]
    if s["graphs"]:
        lines += [
            f"{s['graphs']:,} random graphs of {s['operators']:,} operators in all "
            f"({', '.join(f'{n} for {t}' for t, n in sorted(s['by_target'].items()))}), **{len(s['failures'])} failures**.",
            "",
            "| | |",
            "|---|--:|",
            f"| e-nodes in their e-graphs | {s['e_nodes']:,} |",
            f"| of these evaluated, on three kinds of data, and equal in their class | {s['evaluated']:,} |",
            *(f"| e-graphs that ended by: {stop or 'failure'} | {n:,} |" for stop, n in sorted(s["stops"].items())),
            f"| distinct extractions equal to their source on the TOSA reference model | {s['extractions']:,} |",
            f"| graphs that Vela accepts | {s['accepted_by_vela']:,} |",
            f"| graphs through the whole optimizer with Vela's prices | {sum(s['optimized'].values()):,} |",
            f"| seconds per graph, median and mean | {s['seconds']['median']} and {s['seconds']['mean']} |",
            "",
        ]
        lines += [f"Failure: seed {f['seed']} for {f['target']}: {'; '.join(f['what'])}" for f in s["failures"]]
        if s["refused"]:
            lines += [
                "Extractions by bytes or at random that a guard or Vela refuses (extraction for Vela prices those out):",
                "",
                *(f"* {n} x {what}" for what, n in sorted(s["refused"].items(), key=lambda x: -x[1])),
                "",
            ]
        lines += [
            "## Graphs in which each rule matched",
            "",
            f"Never: {', '.join(s['never']) or 'none'}.",
            "",
            "| family | rule | graphs |",
            "|---|---|--:|",
        ]
        lines += [f"| {r.family} | {r.name} | {s['rules'][r.name]:,} |" for r in rules]
        lines += [
            "",
            "## Graphs in which each operator occurs",
            "",
            ", ".join(f"{op} {n:,}" for op, n in s["ops"].items()),
            "",
        ]
    if s["zoo"]:
        lines += [
            "## E-graphs of the zoo",
            "",
            "Every class at its real size, on random data.",
            "",
            "| graph | operators | e-nodes | evaluated | ended by | saturation s | in all s | result |",
            "|---|--:|--:|--:|---|--:|--:|---|",
        ]
        lines += [
            f"| {z['name']} | {z.get('operators', 0):,} | {z.get('e_nodes', 0):,} | {z.get('evaluated', 0):,} | {z.get('stop', '')} | "
            f"{z.get('saturate_s', 0)} | {z['seconds']} | {z['failure'] or 'all equal'} |"
            for z in s["zoo"]
        ]
    return "\n".join(lines) + "\n"
