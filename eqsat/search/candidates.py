"""The candidates of an optimization, each kind of them made when it is first needed.

They are the given graphs, the known ones (`recall.py`), and those of e-graphs.
While Vela compiles the given graphs, the exact e-graph is saturated and searched by cycles.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property

from eqsat.choice.compiled import Compiled
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.options.decision import Container, Decision
from eqsat.search.alternatives import by_cycles, improved
from eqsat.search.explored import Explored
from eqsat.search.given import Coming, Given
from eqsat.search.order_rounds import in_other_orders
from eqsat.search.recall import Memory
from eqsat.search.repairs import graphs
from eqsat.search.search import Search
from eqsat.tensor.graph import TensorGraph
from eqsat.verification.checks import Checks
from eqsat.verification.verification import rank

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidates:
    """The candidates of one optimization.

    reference: the explicit graph as it was read.
    coming: the given graphs, which are being compiled.
    memory: what is remembered of the graph, None without a store.
    """

    search: Search
    reference: TensorGraph
    explicit: bytes
    coming: Coming
    checks: Checks
    container: Container
    memory: Memory | None

    @cached_property
    def given(self) -> Given:
        return Given.of(self.coming, self.explicit, self.search, self.checks)

    @cached_property
    def decision(self) -> Decision:
        return self.given.decision(self.search, self.container)

    @cached_property
    def known(self) -> bool:
        """Whether the answer is remembered or respelled, so that there is no search."""
        return self.is_remembered or self.is_respelled

    @cached_property
    def is_remembered(self) -> bool:
        """Whether the answer of the very same search is known and still holds."""
        memory, remembered = self.memory, self._remembered
        if memory is None or memory.answer is None:
            return False
        for c in remembered:  # beside the given graphs, which Vela compiles
            self.checks.begin_answer(c, memory.answer.undecided)
        return bool(self.search.attempt(memory.holds, self.given, remembered, self.checks))

    @cached_property
    def is_respelled(self) -> bool:
        """Whether the choice of a graph of equal structure gains as much with this graph's constants."""
        memory, found = self.memory, self._respelled
        if memory is None or not found:
            return False
        return bool(self.search.attempt(memory.gains_as_before, self.given, found, self.decision, self.checks))

    @cached_property
    def exact(self) -> Frozen | None:
        """The e-graph, None if saturation failed or nothing asks for it."""
        return None if self.is_remembered else self.search.attempt(_saturated, self.search, self.reference)

    @cached_property
    def others(self) -> list[Compiled]:
        """The candidates that were not extracted."""
        found = [*self.given.compiled.values(), *self._remembered, *self._respelled]
        if self.known:
            return found
        extracted = graphs(self.explored)
        ordered = self.search.attempt(in_other_orders, self.given, self.search, extracted, self.decision, self.checks)
        return [*found, *(ordered or [])]

    @cached_property
    def _remembered(self) -> list[Compiled]:
        """The graphs of known answers."""
        return (self.memory and self.search.attempt(self.memory.candidates, self.search)) or []

    @cached_property
    def _respelled(self) -> list[Compiled]:
        """The known choice for a graph of equal structure, with this graph's constants."""
        search, memory, exact = self.search, self.memory, self.exact
        found = (memory and exact and search.attempt(memory.respelled, search, exact)) or []
        return (memory and found and search.attempt(memory.in_order, search, found, self.decision)) or found

    @cached_property
    def explored(self) -> list[Explored]:
        """The e-graph with the graphs extracted from it, none if there are none or the answer is known."""
        search = self.search
        first = None if self.known or self.exact is None else search.attempt(by_cycles, search, self.exact)
        best = search.attempt(improved, search, first, self.decision) if first else None
        if best:
            self._begin_checks(best)
        return [best] if best and best.graphs else []

    def _begin_checks(self, explored: Explored) -> None:
        """Starts to check the best candidate if it is one of these, while other orders of the given graph are tried."""
        candidates = [*self.given.compiled.values(), *explored.graphs]
        best = min(candidates, key=lambda c: rank(c, self.decision), default=None)
        if best in explored.graphs:
            self.checks.begin(best)


def _saturated(search: Search, reference: TensorGraph) -> Frozen:
    """Returns the e-graph under the rules of the options."""
    options = search.options
    search.interruption.check()
    with search.clock.stage("saturate"):
        rules = options.identities(search.target)
        frozen = saturate(reference, rules, options.budget, lambda *_: search.interruption.check())
        logger.info("%s e-nodes, %s", f"{frozen.n_nodes:,}", frozen.saturation.stop)
    if frozen.saturation.stop == TIME_LIMIT:
        search.warnings.append(
            f"saturation was stopped after {options.budget.seconds:g} s: what is found depends on how busy this machine is"
        )
    return frozen
