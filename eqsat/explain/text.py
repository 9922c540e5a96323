"""An explanation as text for a terminal, and its tables for a page."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any

from eqsat.explain.record import Proof
from eqsat.explain.verdicts import VERDICTS, Verdict
from eqsat.ground.table import Table, number
from eqsat.tosa.locations import Origins

if TYPE_CHECKING:
    from eqsat.explain import Explanation

#: Most rules, and most nodes, in a line.
_RULES = 4
_NODES = 3
#: Most proofs, and most alternatives, of one operator.
_PROOFS = 40
_ALTERNATIVES = 12
#: Most origins in a line.
_ORIGINS = 3

_MEANINGS = "; ".join(f"{verdict}: {meaning}" for verdict, meaning in VERDICTS.items())
_CYCLES = (
    'Cycles are calibrated, of the whole graph; "-" is free or runs as part of a neighbour, on whose line its cycles '
    "are."
)
_LEGEND = (
    f'{_MEANINGS}. {_CYCLES} "without it" is what the graph would cost more without an operator that stayed; one '
    'without this cannot be removed, or its removal saves and costs nothing. "by" names the rules of the proof, which '
    "`eqsat explain RUN NODE` writes out. After # are the modules and nodes of PyTorch, where they are known."
)


def few(items: list[str], most: int) -> str:
    return ", ".join(items[:most]) + (f", {len(items) - most} more" if len(items) > most else "")


def headline(e: Explanation) -> list[str]:
    """Returns the first lines: the numbers of operators and their cycles, by verdict."""
    out = [
        f"{e.run.name} on {e.run.target.accelerator}: {len(e.ops)} operators; "
        + ", ".join(f"{sum(o.verdict == v for o in e.ops.values())} {v}" for v in VERDICTS)
        + f"; {len(e.added)} new"
    ]
    sides = {"stock": "stock_", "explicit layout": "explicit_", "chosen": ""}
    velas, calibrated = (
        {name: e.run.result[f"{start}{figure}"] for name, start in sides.items()} for figure in ("cycles", "calibrated")
    )
    out.append(f"Calibrated cycles: {_totals(calibrated)} ({e.run.chosen})")
    before = {k: sum(o.calibrated or 0 for o in e.ops.values() if o.verdict == k) for k in VERDICTS}
    now = {k: sum(o.calibrated_now or 0 for o in e.ops.values() if o.verdict == k) for k in VERDICTS}
    out.append(
        "of which "
        + "; ".join(f"{k} {number(before[k])} -> {number(now[k])}" for k in VERDICTS)
        + f"; new {number(sum(a.calibrated or 0 for a in e.added))}"
    )
    out.append(f"Vela's cycles: {_totals(velas)}")
    if e.run.chosen != "eqsat":
        out.append(f"The {e.run.chosen} graph won. What follows is eqsat's best candidate, which was not used.")
    return out


def _totals(cycles: Mapping[str, int | None]) -> str:
    return ", ".join(f"{name} {number(n)}" for name, n in cycles.items() if name != "stock" or n is not None)


def line(e: Explanation, v: Verdict, removals: bool) -> str:
    out = f"n{v.node:<4} {v.op}({few([f'n{i}' for i in v.operands], _NODES)}) {v.type}"
    out += f"  {v.verdict.upper()}  {number(v.calibrated)}"
    if v.verdict == "stayed":
        out += f" -> {number(v.calibrated_now)}" if v.calibrated != v.calibrated_now else ""
        out += f", written as {len(v.written)} operators" if v.written else ""
        if removals:
            extra = e.removal(v.node).extra
            if extra is not None and round(extra):
                out += f"; without it +{number(extra)}"
        return out
    if v.now:
        out += f" -> {v.now} {v.now_type} {number(v.calibrated_now)}"
        out += f", written as {len(v.written)} operators" if v.written else ""
    if v.shown_at and v.shown_at != (v.node,):
        out += f"; see {few([f'n{i}' for i in v.shown_at], _NODES)}, computed otherwise"
    return out + f"; by {few(v.rules, _RULES)}" if v.rules else out


def origins_text(origins: Origins) -> str:
    """Returns the end of a line: modules and nodes of PyTorch, or nothing."""
    return f"  # {few([str(o) for o in origins], _ORIGINS)}" if origins else ""


def overview(e: Explanation, removals: bool) -> str:
    out = [*headline(e), "", fill(_LEGEND, 120, initial_indent="  ", subsequent_indent="  "), ""]
    out += [line(e, v, removals) + origins_text(e.origins.get(v.node, ())) for v in e.ops.values()]
    if e.added:
        out += ["", "New operators:"] + [
            f"  {a.op} {a.type}  {number(a.calibrated)}{origins_text(a.origins)}" for a in e.added
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
                f"Without it the graph would cost about {number(r.extra)} cycles more (by the run's prices), with "
                + few(list(r.instead), 6)
            )
    elif v.shown_at != (v.node,):
        users = ", ".join(f"n{i}" for i in v.shown_at)
        out.append(f"Its value is not computed any more. What was computed from it is computed otherwise: {users}.")
    if v.written:
        out.append(f"Written, as the cheapest way that was found for this movement, as {', '.join(v.written)}")
    out += _proofs(e, v)
    found = e.alternatives(node)
    if found:
        out += [
            "",
            f"Candidates for this value ({len(found)}), by the run's prices: cycles of each alone, and how many more",
            "the whole graph would cost with it and with all that it needs (-: it cannot be used); * is chosen:",
        ]
        shown = found[:_ALTERNATIVES] + [a for a in found[_ALTERNATIVES:] if a["chosen"]]
        for a in shown:
            mark, operands = "*" if a["chosen"] else " ", few(a["operands"], _NODES)
            out.append(f"  {mark} {a['cycles']:>12,.0f} {_path(e, a):>13}  {a['op']}({operands})")
        if len(found) > len(shown):
            out.append(f"    {len(found) - len(shown)} more cost at least {found[_ALTERNATIVES]['cycles']:,.0f}")
    return "\n".join(out)


def _path(e: Explanation, alternative: dict[str, Any]) -> str:
    extra = e.path_cycles(alternative["enode"])
    return "" if alternative["chosen"] else "-" if extra is None else f"+{number(extra)}"


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


# ---- tables --------------------------------------------------------------------------------------


def costliest(e: Explanation) -> list[Verdict]:
    """Returns the verdicts on operators that did not stay, the most cycles first."""
    return sorted((v for v in e.ops.values() if v.verdict != "stayed"), key=_most, reverse=True)


def _most(v: Verdict) -> float:
    return max(v.calibrated or 0, v.calibrated_now or 0)


def tables(e: Explanation) -> list[Table]:
    """Returns the tables of the source's operators and of new ones."""
    return [_operators(e), *([_describe_added(e)] if e.added else [])]


def _operators(e: Explanation) -> Table:
    rows = (
        {
            "operator": f"n{v.node} {v.op} {v.type}",
            "verdict": v.verdict,
            "now": f"{v.now} {v.now_type}" if v.now and v.verdict != "stayed" else "",
            "rules": ", ".join(v.rules),
            "PyTorch": ", ".join(map(str, e.origins.get(v.node, ()))),
            "cycles before": number(v.calibrated),
            "cycles now": number(v.calibrated_now),
        }
        for v in sorted(e.ops.values(), key=lambda v: (v.verdict == "stayed", -_most(v)))
    )
    note = f"Nodes of the graph with explicit layout. {_MEANINGS.capitalize()}. {_CYCLES}"
    return Table.of("By operator of the source", note, rows, words=5)


def _describe_added(e: Explanation) -> Table:
    rows = tuple((f"{a.op} {a.type}", ", ".join(map(str, a.origins)), number(a.calibrated)) for a in e.added)
    return Table("New operators", "", ("operator", "PyTorch", "cycles"), rows, words=2)
