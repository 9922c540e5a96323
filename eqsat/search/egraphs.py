"""The e-graphs of a search: the exact one, and others under more rules where they are needed or wanted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.egraph.rule import Rule
from eqsat.options.decision import Decision
from eqsat.options.effort import EFFORTS
from eqsat.rules import tolerant
from eqsat.search.alternatives import by_cycles, improved
from eqsat.search.attempt import attempt
from eqsat.search.explored import Explored
from eqsat.search.less_memory import rules_for_less
from eqsat.search.search import Search
from eqsat.tensor.graph import TensorGraph

logger = logging.getLogger(__name__)

#: There is no second e-graph with forms that need less memory where the first has more e-nodes: it would take as long
#: again.
_MOST_E_NODES = 15_000


def saturated(search: Search, reference: TensorGraph, more: Sequence[Rule] = ()) -> Frozen | None:
    """The e-graph under the rules of the options and more; None where that fails."""
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
    """What a second e-graph has where nothing fast fits, by greedy extraction: prices are known by now, and what it is
    about is memory.

    known: the graphs that were compiled by now.
    """
    if exact.n_nodes > _MOST_E_NODES or not EFFORTS[search.options.effort].less_memory:
        return None
    more = list(dict.fromkeys(rule for limits in decision.aims for rule in rules_for_less(known, limits)))
    frozen = saturated(search, reference, more) if more else None
    if not frozen or not any(frozen.saturation.matches.get(r.name) for r in more):
        return None
    return improved(search, by_cycles(search, frozen, extractor="dag_greedy", more=more), decision)


def rounding_less(search: Search, reference: TensorGraph, decision: Decision) -> tuple[Frozen | None, list[Explored]]:
    """With tolerant numerics, the e-graph under rules that save roundings, and what was found in it, if there is
    something to round less often."""
    more = tuple(tolerant.RULES)
    frozen = saturated(search, reference, more) if search.options.numerics == "tolerant" else None
    if not frozen or not any(frozen.saturation.matches.get(r.name) for r in more if not r.analysis):
        return frozen, []
    first = attempt(search, by_cycles, search, frozen, more=more, tolerant=True)
    found = attempt(search, improved, search, first, decision) if first else None
    return frozen, [found] if found else []
