"""The cost of the choice without an operator, and with another one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from eqsat.explain.words import enode_text, type_text
from eqsat.search.run import Run
from extraction import ChoiceGraph, Extraction, ExtractionError, InvalidExtraction, check, extract, reachable

#: E-nodes of a choice graph up to which costs without an operator are extracted by `portfolio`.
#: Of `examples/upscale.tosa` on U85, greedy extraction tells up to 8,391 cycles too many.
_THOROUGH = 5_000
#: Seconds of such an extraction.
_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Removal:
    """The cost of the graph without one operator.

    extra: additional cycles by the run's prices, None if the graph needs the operator.
    instead: the operators that replace it.
    """

    extra: float | None
    instead: tuple[str, ...] = ()


def removal(run: Run, cls: int) -> Removal:
    """Returns the cheapest choice found without the e-node that the run's choice has for `cls`."""
    choices, choice = run.choices, run.choice
    enode = choices.candidates[choice[cls]].enode
    without = {n for n in choices.graph.class_nodes(cls) if choices.candidates[n].enode is enode}
    found = _cheapest(replace(choices.graph, forbidden=choices.graph.forbidden | without))
    if found is None:
        return Removal(None)
    changed = [n for c, n in choices.of_classes(found.choice).items() if choice.get(c) != n]
    new = [n for n in changed if choices.candidates[n].enode.op != "const"]
    new.sort(key=lambda n: -choices.candidates[n].cycles)
    enodes = [choices.candidates[n].enode for n in new]
    instead = tuple(f"{enode_text(e)} {type_text(choices.frozen.types[e.cls])}" for e in enodes)
    return Removal(max(0.0, found.cost - run.cost()), instead)


def _cheapest(graph: ChoiceGraph) -> Extraction | None:
    """Returns the cheapest choice found in the time for one line of an explanation, None if there is none."""
    try:
        return extract(graph, "portfolio" if graph.n_nodes <= _THOROUGH else "dag_greedy", time_limit=_SECONDS)
    except ExtractionError:
        return None


def path(run: Run, n: int) -> float | None:
    """Returns the additional cycles of the whole graph if choice node `n` computes its class.

    It is the better of an extraction and a change of the present choice, None if `n` cannot be used.
    """
    graph, choice = run.choices.graph, run.choice
    cls = int(graph.node_class[n])
    if choice.get(cls) == n:
        return 0.0
    others = {k for k in graph.class_nodes(cls) if k != n}
    forced = replace(graph, roots=(*graph.roots, cls), forbidden=graph.forbidden | others)
    found = _cheapest(forced)
    if found is None:
        return None
    costs = [found.cost]
    with contextlib.suppress(InvalidExtraction):  # the run's choice may depend on itself with `n`
        costs.append(check(forced, reachable(forced, {**found.choice, **choice, cls: n})))
    return max(0.0, min(costs) - run.cost())
