"""The e-graphs of a search: the exact one, and others with further rules."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.egraph.rule import Rule
from eqsat.options.decision import Decision
from eqsat.options.options import TOLERANT
from eqsat.rules import tolerant
from eqsat.search.alternatives import by_cycles, improved
from eqsat.search.explored import Explored
from eqsat.search.search import Search
from eqsat.tensor.graph import TensorGraph

logger = logging.getLogger(__name__)


def saturated(search: Search, reference: TensorGraph, more: Sequence[Rule] = ()) -> Frozen | None:
    """Returns the e-graph under the rules of the options and `more`; None if saturation fails."""
    return search.attempt(_saturated, search, reference, more)


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


def rounding_less(search: Search, reference: TensorGraph, decision: Decision) -> tuple[Frozen | None, list[Explored]]:
    """Returns the e-graph under rules that save roundings, and the graphs found in it.

    Returns None and none unless numerics are tolerant.
    The list is empty if no such rule matched.
    """
    more = tuple(tolerant.RULES)
    frozen = saturated(search, reference, more) if search.options.numerics == TOLERANT else None
    if not frozen or not any(frozen.saturation.matches.get(r.name) for r in more if not r.analysis):
        return frozen, []
    first = search.attempt(by_cycles, search, frozen, more=more)
    found = search.attempt(improved, search, first, decision) if first else None
    return frozen, [found] if found else []
