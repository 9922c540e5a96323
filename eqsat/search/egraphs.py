"""The e-graphs of a search: the exact one, and others with further rules."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.egraph.rule import Rule
from eqsat.options.decision import Decision
from eqsat.options.effort import EFFORTS
from eqsat.options.options import TOLERANT
from eqsat.rules import tolerant
from eqsat.search.alternatives import by_cycles, improved
from eqsat.search.attempt import attempt
from eqsat.search.explored import Explored
from eqsat.search.less_memory import rules_for_less
from eqsat.search.search import Search
from eqsat.tensor.graph import TensorGraph

logger = logging.getLogger(__name__)

#: E-nodes of the exact e-graph above which no second one with the footprint rules is saturated.
#: The second one would take about as much time again.
_MOST_E_NODES = 15_000


def saturated(search: Search, reference: TensorGraph, more: Sequence[Rule] = ()) -> Frozen | None:
    """Returns the e-graph under the rules of the options and `more`; None if saturation fails."""
    return attempt(search, _saturated, search, reference, more)


def _saturated(search: Search, reference: TensorGraph, more: Sequence[Rule]) -> Frozen:
    options = search.options
    search.interruption.check()
    with search.clock.stage("saturate"):
        rules = options.identities(search.target, more)
        frozen = saturate(reference, rules, options.budget, lambda *_: search.interruption.check())
        logger.info("%s e-nodes, %s", f"{frozen.n_nodes:,}", frozen.saturation.stop)
    if frozen.saturation.stop == TIME_LIMIT:
        search.warnings.append(
            f"saturation was stopped after {options.budget.seconds:g} s: what is found depends on how busy this machine is"
        )
    return frozen


def with_less_memory(
    search: Search, reference: TensorGraph, exact: Frozen, known: Sequence[Compiled], decision: Decision
) -> Explored | None:
    """Returns the graphs of a second e-graph with footprint rules, if no fast graph fits.

    known: the graphs compiled so far.
    Returns None if the e-graph is too large, no footprint rule is wanted, or none matched.
    Greedy extraction is enough here: prices are corrected already, and memory is the objective.
    """
    if exact.n_nodes > _MOST_E_NODES or not EFFORTS[search.options.effort].less_memory:
        return None
    more = list(dict.fromkeys(rule for limits in decision.aims for rule in rules_for_less(known, limits)))
    frozen = saturated(search, reference, more) if more else None
    if not frozen or not any(frozen.saturation.matches.get(r.name) for r in more):
        return None
    return improved(search, by_cycles(search, frozen, extractor="dag_greedy", more=more), decision)


def rounding_less(search: Search, reference: TensorGraph, decision: Decision) -> tuple[Frozen | None, list[Explored]]:
    """Returns the e-graph under rules that save roundings, and the graphs found in it.

    Returns None and none unless numerics are tolerant.
    The list is empty if no such rule matched.
    """
    more = tuple(tolerant.RULES)
    frozen = saturated(search, reference, more) if search.options.numerics == TOLERANT else None
    if not frozen or not any(frozen.saturation.matches.get(r.name) for r in more if not r.analysis):
        return frozen, []
    first = attempt(search, by_cycles, search, frozen, more=more, tolerant=True)
    found = attempt(search, improved, search, first, decision) if first else None
    return frozen, [found] if found else []
