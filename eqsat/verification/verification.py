"""Which of the compiled graphs may be the answer: the first, from the cheapest on, that is legal and equals the
reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision, front
from eqsat.options.options import PARETO
from eqsat.verification.checks import CALLED, Answer, Checks

#: By which share of the objective a graph whose binary was run may be worse than one whose binary could not be judged.
_ABOUT = 0.01
#: How many graphs that need more memory are verified at most, the fastest first, until one may be offered to the user.
_OFFERS = 3


def rank(c: Compiled, decision: Decision) -> tuple[float, bool, int, bool, int, int]:
    """What candidates are sorted by, the best first: by how much they exceed the limits; whether they are dearer than
    stock's by Vela's own total; the objective; exact before tolerant; of cycles and SRAM the other one; operators."""
    excess, dearer, wanted, other = decision.rank(c.figures)
    return excess, dearer, wanted, c.tolerant, other, sum(c.graph.op_counts().values())


def in_order(
    candidates: Sequence[Compiled], decision: Decision, is_suspect: Callable[[Compiled], bool]
) -> list[Compiled]:
    """The best first.

    A suspect given graph is not preferred for fitting: it comes behind every graph that is better by the objective.
    """
    suspects = [c for c in candidates if c.choices is None and is_suspect(c)]
    out = sorted((c for c in candidates if c not in suspects), key=lambda c: rank(c, decision))
    for suspect in suspects:
        worse = (i for i, c in enumerate(out) if decision.rank(suspect.figures)[1:] < decision.rank(c.figures)[1:])
        out.insert(next(worse, len(out)), suspect)
    return out


def pareto_set(candidates: Sequence[Compiled], checks: Checks) -> list[Compiled]:
    """What may replace the reference, as far as that is known, and is beaten by none that may, by cycles."""
    possible = [c for c in candidates if checks.verified(c) is not False]
    return [possible[i] for i in front([c.figures for c in possible])]


def first_equal(candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> Answer | None:
    """The best candidate that is legal, equals the reference, which the explicit graph is, and is not compiled wrongly.

    One that exceeds the limits is taken only where none fits.
    One that is not proved equal for every input, or whose binary could not be judged, comes behind one of about the
    same cost (`_ABOUT`) that is and was; stock's graph and the explicit one are what there would be without eqsat.
    Where Vela compiled a candidate wrongly, the answer's own binary was run, whatever the budget says, or it is stock's
    graph.
    An explicit graph that breaks a guard is taken only if its binary was found to be right, or where there is nothing
    else, and stock's only where it is the best.
    None: Vela refuses the explicit graph, and nothing else is equal.
    """
    fallbacks: list[Answer] = []
    held: Answer | None = None
    for c in in_order(candidates, decision, checks.is_suspect):
        if held is not None and not decision.is_about_as_good(c.figures, held.best.figures, by=_ABOUT):
            break
        found = checks.compared(c)
        if found is None:
            continue
        if found.binary.equal is None and checks.miscompiled:
            found = checks.run_in_any_case(found)
        if found.binary.equal is False or _is_doubtful(found, checks):
            fallbacks.append(found)
        elif c.name == "eqsat" and not (found.is_proved and (found.binary.equal or not checks.binaries.run_at_all)):
            held = held or found
        else:
            held = found
            break
    return held or min(fallbacks, key=lambda a: (a.binary.equal is False, a.best.name != "stock"), default=None)


def _is_doubtful(found: Answer, checks: Checks) -> bool:
    """Whether a graph whose binary is not known to be right may only be a fallback.

    It may if it breaks a guard, or if others of this delegate were compiled wrongly; stock's graph is what there would
    be without eqsat.
    """
    c = found.best
    return found.binary.equal is None and c.name != "stock" and (checks.breaks_a_guard(c) or bool(checks.miscompiled))


def verify_offers(candidates: Sequence[Compiled], answer: Answer, checks: Checks, decision: Decision) -> None:
    """Verifies what the user is told of beside the answer: the Pareto set, or the fastest graph that needs more
    memory."""
    if decision.objective == PARETO:
        while other := next((c for c in pareto_set(candidates, checks) if checks.verified(c) is None), None):
            checks.compared(other)
        return
    own = answer.best.figures
    for _ in range(_OFFERS):
        over = [
            c
            for c in candidates
            if checks.verified(c) is not False and c.figures.cycles < own.cycles and not decision.limits.fits(c.figures)
        ]
        fastest = min(over, key=lambda c: c.figures, default=None)
        if fastest is None or checks.verified(fastest):
            return
        checks.compared(fastest)


def tell(answer: Answer, candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> None:
    """Warns of what a user should know about the answer."""
    best, warnings, called = answer.best, checks.warnings, CALLED[answer.best.name]
    if not decision.limits.widest.fits(best.figures):
        warnings.append(f"no graph was found that fits into {decision.limits.widest}; {called} comes closest")
    guards = checks.guards(best)
    if guards and answer.binary.equal is not True:
        warnings.append(f"{called} is used though it breaks a guard: {guards[0]}")
    if answer.binary.equal is False:
        warnings.append(f"{called} is used though Vela compiles it wrongly: {answer.binary.reason}")
    elif answer.binary.equal is None and answer.verified and checks.binaries.run_at_all:
        warnings.append(f"the binary of {called} could not be judged: {answer.binary.reason}")
    for given in (c for c in candidates if c.choices is None and checks.verified(c) is not False and c is not best):
        if given.figures.cycles < best.figures.cycles and decision.limits.fits(given.figures) and checks.guards(given):
            warnings.append(
                f"{CALLED[given.name]}, {given.figures.cycles:,} cycles, was not used for {best.figures.cycles:,}: "
                f"it breaks a guard ({checks.guards(given)[0]}), and its binary could not be judged"
            )
