"""The plain text of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eqsat.explain.closure import Proof
from eqsat.explain.verdicts import VERDICTS, Verdict
from eqsat.tosa.locations import Origins

if TYPE_CHECKING:
    from eqsat.explain import Explanation

#: Most rules in a line of the overview.
_RULES = 4
#: Most nodes in a line of the overview.
_NODES = 3
#: Most proofs written out for one operator.
_PROOFS = 40
#: Most alternatives listed for one operator.
_ALTERNATIVES = 12
#: Most origins in a line.
_ORIGINS = 3

LEGEND = """\
stayed: as it was, and what the graph would cost more without it; changed: the same value by another operator or with other attributes;
moved: the operator works on another tensor; removed: nothing takes its place. Cycles are Vela's of the whole graph; "-" is free or
runs as part of a neighbour, on whose line its cycles are. A stayed operator without a + cannot be removed, or its removal
saves and costs nothing. "by" names the rules of the proof, which `eqsat explain RUN NODE` writes out. After # are the modules and nodes of PyTorch, where they are known."""


def cycles(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def few(items: list[str], most: int) -> str:
    return ", ".join(items[:most]) + (f", {len(items) - most} more" if len(items) > most else "")


def headline(e: Explanation) -> list[str]:
    """Returns the first lines: the numbers of operators and their cycles, by verdict."""
    r = e.run.result
    out = [
        f"{e.run.name} on {e.run.target.accelerator}: {len(e.ops)} operators; "
        + ", ".join(f"{sum(o.verdict == v for o in e.ops.values())} {v}" for v in VERDICTS)
        + f"; {len(e.added)} new"
    ]
    if r:
        out += _totals(r, e.run.chosen)
    before = {k: sum(o.cycles or 0 for o in e.ops.values() if o.verdict == k) for k in VERDICTS}
    now = {k: sum(o.cycles_now or 0 for o in e.ops.values() if o.verdict == k) for k in VERDICTS}
    out.append(
        "of which "
        + "; ".join(f"{k} {cycles(before[k])} -> {cycles(now[k])}" for k in VERDICTS)
        + f"; new {cycles(sum(a.cycles or 0 for a in e.added))}"
    )
    if e.run.chosen != "eqsat":
        out.append(f"The {e.run.chosen} graph won. What follows is eqsat's best candidate, which was not used.")
    return out


def _totals(result: Mapping[str, Any], chosen: str) -> list[str]:
    """Returns the lines on the calibrated cycles of the graphs, and on Vela's totals."""
    sides = {"stock": "stock_", "explicit layout": "explicit_", "chosen": ""}
    velas = {name: result.get(f"{start}cycles") for name, start in sides.items()}
    calibrated = {name: result.get(f"{start}calibrated", velas[name]) for name, start in sides.items()}

    def told(totals: dict[str, int | None]) -> str:
        return ", ".join(f"{name} {cycles(n)}" for name, n in totals.items() if name != "stock" or n is not None)

    return [f"Calibrated cycles: {told(calibrated)} ({chosen})", f"Vela's cycles: {told(velas)}"]


def line(e: Explanation, v: Verdict, removals: bool) -> str:
    out = f"n{v.node:<4} {v.op}({few([f'n{i}' for i in v.operands], _NODES)}) {v.type}  {v.verdict.upper()}  {cycles(v.cycles)}"
    if v.verdict == "stayed":
        out += f" -> {cycles(v.cycles_now)}" if v.cycles != v.cycles_now else ""
        out += f", written as {len(v.written)} operators" if v.written else ""
        if removals:
            extra = e.removal(v.node).extra
            if extra is not None and round(extra):
                out += f"; without it +{cycles(extra)}"
        return out
    if v.now:
        out += f" -> {v.now} {v.now_type} {cycles(v.cycles_now)}"
        out += f", written as {len(v.written)} operators" if v.written else ""
    if v.shown_at and v.shown_at != (v.node,):
        out += f"; see {few([f'n{i}' for i in v.shown_at], _NODES)}, computed otherwise"
    return out + f"; by {few(v.rules, _RULES)}" if v.rules else out


def origins_text(origins: Origins) -> str:
    """Returns the end of a line: modules and nodes of PyTorch, or nothing."""
    return f"  # {few([str(o) for o in origins], _ORIGINS)}" if origins else ""


def overview(e: Explanation, removals: bool) -> str:
    out = [*headline(e), "", LEGEND, ""]
    out += [line(e, v, removals) + origins_text(e.origins.get(v.node, ())) for v in e.ops.values()]
    if e.added:
        out += ["", "New operators:"] + [
            f"  {a.op} {a.type}  {cycles(a.cycles)}{origins_text(a.origins)}" for a in e.added
        ]
    return "\n".join(out)


def detail(e: Explanation, node: int) -> str:
    """Returns the verdict, the proofs and the candidates of one operator."""
    v = e.op(node)
    out = [line(e, v, False)]
    if node in e.origins:
        out.append(f"In PyTorch: {', '.join(f'{o} ({o.kind})' if o.kind else str(o) for o in e.origins[node])}")
    if v.verdict == "stayed":
        r = e.removal(node)
        if r.extra is None:
            out.append("It cannot be removed: no rule knows another way to the outputs.")
        else:
            out.append(
                f"Without it the graph would cost about {cycles(r.extra)} cycles more (by the run's prices), with "
                + few(list(r.instead), 6)
            )
    elif v.shown_at != (v.node,):
        out.append(
            f"Its value is not computed any more. What was computed from it is computed otherwise: {', '.join(f'n{i}' for i in v.shown_at)}."
        )
    if v.written:
        out.append(f"Written, as the cheapest way that was found for this movement, as {', '.join(v.written)}")
    out += _proofs(e, v)
    found = e.alternatives(node)
    if found:
        out += [
            "",
            f"Candidates for this value ({len(found)}), by the run's prices: cycles of each alone, and how many more the whole graph would cost with it",
            "and with all that it needs (-: it cannot be used); * is chosen:",
        ]
        shown = found[:_ALTERNATIVES] + [a for a in found[_ALTERNATIVES:] if a["chosen"]]
        out += [
            f"  {'*' if a['chosen'] else ' '} {a['cycles']:>12,.0f} {_path(e, a):>13}  {a['op']}({few(a['operands'], _NODES)})"
            for a in shown
        ]
        if len(found) > len(shown):
            out.append(f"    {len(found) - len(shown)} more cost at least {found[_ALTERNATIVES]['cycles']:,.0f}")
    return "\n".join(out)


def _path(e: Explanation, alternative: dict[str, Any]) -> str:
    extra = e.path_cycles(alternative["enode"])
    return "" if alternative["chosen"] else "-" if extra is None else f"+{cycles(extra)}"


def _proofs(e: Explanation, v: Verdict) -> list[str]:
    """Returns the lines of each proof once: those of the value first, then the proofs that they need."""
    own = {id(p) for p in v.proofs}
    order = {id(p): p for p in (*v.proofs, *(p for q in v.proofs for p in reversed(list(q.proofs()))))}
    steps = [p for p in order.values() if p.links]
    texts: dict[tuple[tuple[str, str], ...], Proof] = {}
    for p in steps[:_PROOFS]:
        texts.setdefault(tuple(e.proof_lines(p)), p)
    out: list[str] = []
    for lines, p in texts.items():
        out += ["", f"{'Proof' if id(p) in own else 'It rests on'}, {e.proof_type(p)}:", f"    {lines[0][0]}"]
        width = min(90, max(len(t) for t, _ in lines[1:]))
        out += [f"      = {t:<{width}}  {rule}" for t, rule in lines[1:]]
    if len(steps) > _PROOFS:
        out += ["", f"... and {len(steps) - _PROOFS} more, see --json"]
    return out
