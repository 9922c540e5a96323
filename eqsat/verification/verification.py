"""The choice of the answer: the best compiled graph that is legal and equals the reference."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision, Figures, front, shortfall
from eqsat.options.options import PARETO
from eqsat.verification.checks import CALLED, Answer, Checks

#: After so many candidates that could not be proved, only stock's graph and the explicit one are tried.
_UNPROVED = 3
#: Graphs that need more memory and are verified to find one for the user, at most.
_OFFERS = 3


def pareto_set(candidates: Sequence[Compiled], checks: Checks) -> list[Compiled]:
    """Returns the Pareto set of the candidates that may replace the reference, as far as known."""
    possible = [c for c in candidates if checks.verified(c) is not False]
    return [possible[i] for i in front([c.figures for c in possible])]


def first_equal(candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> Answer | None:
    """Returns the best candidate that is legal, equals the reference, and is compiled rightly.

    The explicit graph is the reference.
    A candidate that is not proved equal for every input is passed over.
    Behind `_UNPROVED` of them only candidates are considered that were compared before.
    If Vela compiled a candidate wrongly, the answer's binary is run whatever the budget says.
    What Vela compiles wrongly, and what is doubtful, is a last resort.
    Returns None if Vela refuses the explicit graph and nothing else is equal.
    """
    fallbacks: list[Answer] = []
    undecided = 0
    for c in sorted(candidates, key=decision.rank_of):
        if c.name == "eqsat" and undecided == _UNPROVED and checks.verified(c) is None:
            continue
        found = checks.compared(c)
        if found is None:
            undecided += c in checks.undecided
            continue
        if found.binary.equal is None and checks.miscompiled:
            found = checks.run_in_any_case(found)
        if found.binary.equal is not False and not _is_doubtful(found, checks):
            return found
        fallbacks.append(found)
    return min(fallbacks, key=lambda a: (a.binary.equal is False, a.best.name != "stock"), default=None)


def _is_doubtful(found: Answer, checks: Checks) -> bool:
    """Whether a graph may only be a fallback, because its binary is not known to be right.

    It breaks a guard, or others of this delegate were compiled wrongly.
    Stock's graph is excepted, as it is what there is without eqsat.
    """
    c = found.best
    return found.binary.equal is None and c.name != "stock" and bool(checks.guards(c) or checks.miscompiled)


def verify_offers(candidates: Sequence[Compiled], answer: Answer, checks: Checks, decision: Decision) -> None:
    """Verifies what the user is told beside the answer.

    That is the Pareto set, or the fastest graph that needs more memory.
    """
    if decision.objective == PARETO:
        while other := next((c for c in pareto_set(candidates, checks) if checks.verified(c) is None), None):
            checks.compared(other)
        return
    possible = (c for c in candidates if checks.verified(c) is not False)
    faster = (c for c in possible if c.figures.cycles < answer.best.figures.cycles)
    over = [c for c in faster if not decision.limits.fits(c.figures)]
    for c in sorted(over, key=lambda c: c.figures)[:_OFFERS]:
        checks.compared(c)
        if checks.verified(c):
            return


def tell(
    answer: Answer,
    candidates: Sequence[Compiled],
    checks: Checks,
    decision: Decision,
    nearest: Figures | None = None,
) -> None:
    """Adds warnings about the answer.

    nearest: the figures of the graph that exceeds the limits least, None if the answer fits.
    """
    best, warnings, called = answer.best, checks.warnings, CALLED[answer.best.name]
    if nearest is not None:
        warnings.append(shortfall(decision.limits.widest, best.figures, nearest))
    guards = checks.guards(best)
    if guards and answer.binary.equal is not True:
        warnings.append(f"{called} is used though it breaks a guard: {guards[0]}")
    if answer.binary.equal is False:
        warnings.append(f"{called} is used though Vela compiles it wrongly: {answer.binary.reason}")
    elif answer.binary.equal is None and answer.verified and checks.binaries.run_at_all:
        warnings.append(f"the binary of {called} could not be judged: {answer.binary.reason}")
    fewest = min(checks.undecided, key=decision.rank_of, default=best)
    if decision.rank_of(fewest) < decision.rank_of(best):
        warnings.append(
            f"a candidate of {fewest.figures.cycles:,} cycles was not used for {best.figures.cycles:,}: it equals the "
            f"input on all samples, but is not proved to for every input ({checks.undecided[fewest]})"
        )
    for given in (c for c in candidates if c.choices is None and checks.verified(c) is not False and c is not best):
        if given.figures.cycles < best.figures.cycles and decision.limits.fits(given.figures) and checks.guards(given):
            warnings.append(
                f"{CALLED[given.name]}, {given.figures.cycles:,} cycles, was not used for {best.figures.cycles:,}: "
                f"it breaks a guard ({checks.guards(given)[0]}), and its binary could not be judged"
            )
