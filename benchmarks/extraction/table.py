"""Tables of records: a row for each instance with the published values, and a summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from benchmarks.study import markdown_table
from eqsat.bench.records import Record

#: Published values: {instance: {run: [cost, seconds]}}.
Known = Mapping[str, Mapping[str, Sequence[float]]]

#: Part of the names of published runs with a closed-source solver.
CLOSED_SOURCE = "cplex"
#: Seconds within which published open-source runs are compared with.
OPEN_LIMIT = 900.0
#: Seconds by which published runs that stopped at their limit exceeded it.
OVERRUN = 10.0
#: Relative difference of costs that count as equal.
TOLERANCE = 1e-6


def markdown(records: Sequence[Record], known: Known, main: str = "portfolio") -> str:
    """Returns the whole report.

    main: the extractor that is compared with the others.
    """
    records = distinct(records)
    extractors = sorted({r["extractor"] for r in records}, key=lambda e: (e != main, e))
    cells: dict[tuple[str, str], list[Record]] = {}
    for r in records:
        cells.setdefault((r["instance"], r["extractor"]), []).append(r)
    names = sorted({r["instance"] for r in records})
    head = ["instance", "e-nodes"] + [f"{e} {what}" for e in extractors for what in ("cost", "s")]
    head += ["bound"] + ["best open source <= 900 s", "best published"] * bool(known)
    rows = []
    for name in names:
        groups = [cells.get((name, e), []) for e in extractors]
        bounds = [r["lower_bound"] for r in chain(*groups) if r["lower_bound"] is not None]
        row = [name, next(chain(*groups))["n_nodes"], *chain(*((_cost(g), _seconds(g)) for g in groups))]
        row.append(_number(max(bounds)) if bounds else "")
        if known:
            row += [_published(open_source(known, name)), _published(published(known, name))]
        rows.append(row)
    return "\n".join([*markdown_table(head, rows), *_summary(names, extractors, cells, known, main)]) + "\n"


def distinct(records: Sequence[Record]) -> list[Record]:
    """Returns the records, with a digest behind the name of an instance where several files have that name."""
    digests: dict[str, set[str]] = {}
    for r in records:
        digests.setdefault(r["instance"], set()).add(r["digest"])
    several = {name for name, found in digests.items() if len(found) > 1}
    return [
        {**r, "instance": f"{r['instance']} ({r['digest'][:8]})"} if r["instance"] in several else r for r in records
    ]


def published(known: Known, instance: str) -> dict[str, Sequence[float]]:
    """Returns {run: [cost, seconds]} of the published runs on an instance."""
    return dict(known.get(instance.rsplit("/", 1)[-1], {}))


def open_source(known: Known, instance: str) -> dict[str, Sequence[float]]:
    """Returns the published runs with open-source solvers within OPEN_LIMIT."""
    runs = published(known, instance).items()
    return {run: v for run, v in runs if CLOSED_SOURCE not in run and v[1] <= OPEN_LIMIT + OVERRUN}


def _worst(group: Sequence[Record]) -> float:
    """Returns the highest cost over the seeds, inf if a seed found none."""
    return max((math.inf if r["cost"] is None else r["cost"] for r in group), default=math.inf)


def _cost(group: Sequence[Record]) -> str:
    if not group:
        return ""
    if any(r["cost"] is None for r in group):
        return group[0]["status"]
    proved = all(r["status"] == "optimal" for r in group)
    return _number(_worst(group)) + ("*" if proved else "")


def _seconds(group: Sequence[Record]) -> str:
    return f"{median(r['seconds'] for r in group):.2f}" if group else ""


def _number(x: float) -> str:
    return f"{x:.9g}"


def _published(runs: Mapping[str, Sequence[float]]) -> str:
    if not runs:
        return ""
    cost, seconds = min(runs.values(), key=lambda v: (v[0], v[1]))
    return f"{_number(cost)} ({seconds:.4g} s)"


def _summary(
    names: Sequence[str],
    extractors: Sequence[str],
    cells: Mapping[tuple[str, str], list[Record]],
    known: Known,
    main: str,
) -> list[str]:
    lines = [f"\\* proved optimal (all seeds; the highest cost, the median seconds). {len(names)} instances.", ""]
    lines += [_totals(e, {n: cells[n, e] for n in names if (n, e) in cells}) for e in extractors]
    if main not in extractors:
        return lines
    mine = {n: cells[n, main] for n in names if (n, main) in cells}
    if left := gaps(list(chain(*mine.values())))[main]["gaps"]:
        lines.append(f"- gaps that `{main}` leaves: " + ", ".join(f"{n} {gap:.3%}" for n, gap in left.items()))
    for e in (e for e in extractors if e != main):
        pairs = {n: (_worst(g), _worst(cells[n, e])) for n, g in mine.items() if (n, e) in cells}
        lines.append(_comparison(f"`{main}` against `{e}`", pairs))
    return lines + _against_published(mine, known, main)


def _totals(extractor: str, groups: Mapping[str, list[Record]]) -> str:
    """Returns what an extractor proved and how long it took, over its instances."""
    proved = sum(all(r["status"] == "optimal" for r in g) for g in groups.values())
    seconds = [median(r["seconds"] for r in g) for g in groups.values()]
    return (
        f"- `{extractor}`: {proved} of {len(groups)} proved optimal; {sum(seconds):.1f} s in all, "
        f"median {median(seconds):.2f} s, longest {max(seconds):.1f} s"
    )


def _against_published(groups: Mapping[str, list[Record]], known: Known, main: str) -> list[str]:
    """Returns the comparison of `main` with the best published value of each instance.

    A published value below a bound that was proved here does not count.
    """
    best, impossible = {}, []
    for n, group in groups.items():
        bound = max((r["lower_bound"] for r in group if r["lower_bound"] is not None), default=-math.inf)
        values = {}
        for run, (cost, _) in open_source(known, n).items():
            if cost < bound - TOLERANCE * max(1.0, abs(bound)):
                impossible.append(f"{n}: {run} {_number(cost)} < {_number(bound)}")
            else:
                values[run] = cost
        if values:
            best[n] = (_worst(group), min(values.values()))
    title = f"`{main}` against the best published open-source value reached in {OPEN_LIMIT:.0f} s"
    return [
        *([_comparison(title, best)] if best else []),
        *(f"- published value below a lower bound proved here, left out: {i}" for i in impossible),
    ]


def _comparison(title: str, pairs: Mapping[str, tuple[float, float]]) -> str:
    def close(a: float, b: float) -> bool:
        return abs(a - b) <= TOLERANCE * max(1.0, abs(b))

    equal = sum(close(a, b) for a, b in pairs.values())
    worse = [f"{n} ({_number(a)} > {_number(b)})" for n, (a, b) in pairs.items() if a > b and not close(a, b)]
    ratios = [math.log(a / b) for a, b in pairs.values() if 0 < a < math.inf and 0 < b < math.inf]
    mean = f"{math.exp(sum(ratios) / len(ratios)):.5f}" if ratios else "none"
    return (
        f"- {title}: {len(pairs) - equal - len(worse)} below, {equal} equal, {len(worse)} above"
        f"{': ' + ', '.join(worse) if worse else ''}; geometric mean ratio {mean} over {len(ratios)}"
    )


def gaps(records: Sequence[Record]) -> dict[str, Any]:
    """Returns {extractor: {"proved": share, "gaps": {instance: gap}, "unknown": number}}.

    proved: the share of cells that are proved optimal.
    gaps: relative gaps of the other cells to the best bound that any extractor has of their instance.
    unknown: the number of other cells with a cost whose instance has no bound.
    """
    result: dict[str, Any] = {}
    bounds: dict[str, float] = {}
    for r in records:
        bound = r["cost"] if r["status"] == "optimal" else r["lower_bound"]
        if bound is not None:
            bounds[r["instance"]] = max(bound, bounds.get(r["instance"], -math.inf))
    for e in sorted({r["extractor"] for r in records}):
        mine = [r for r in records if r["extractor"] == e]
        others = [(r["instance"], r["cost"]) for r in mine if r["status"] == "feasible"]
        left = {n: (cost - bounds[n]) / max(abs(cost), 1e-12) for n, cost in others if n in bounds}
        proved = sum(r["status"] == "optimal" for r in mine) / len(mine)
        result[e] = {"proved": proved, "gaps": left, "unknown": sum(n not in bounds for n, _ in others)}
    return result


def stated(gap: Mapping[str, Any]) -> str:
    """Returns an extractor's entry of `gaps` in words."""
    parts = [f"{gap['proved']:.1%} proved optimal"]
    if gap["gaps"]:
        parts.append(f"largest gap of the others {max(gap['gaps'].values()):.2%}")
    if gap["unknown"]:
        parts.append(f"gap of {gap['unknown']} not known, as no extractor has a bound")
    return ", ".join(parts)
