"""Reductions of a NormalForm.

Each keeps at least one optimal choice.
Surcharges and negative prices restrict the reductions; every function says how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from extraction.check import Choice, reachable
from extraction.derivation import Closure, cyclic_component_of, derive
from extraction.graph import ChoiceGraph
from extraction.normal_form import NormalForm
from extraction.stopping import clock, is_over

#: Comparisons of one pass of `drop_dominated`, at most: huge classes take quadratic time.
DOMINANCE_BUDGET = 2_000_000

#: Reads that contracting a class may add, at most.
GROWTH = 4


def drop_underivable(form: NormalForm) -> None:
    """Drops e-nodes that read a class without an acyclic derivation from leaves."""
    found = derive((form.owner[n], form.reads[n]) for n in form.nodes())
    for c, nodes in enumerate(form.members):
        form.members[c] = [n for n in nodes if form.reads[n] <= found]
    form.require_roots()


def drop_unreachable(form: NormalForm) -> None:
    """Drops classes that cannot be reached from the classes that must be active."""
    seen = set(form.required)
    stack = list(seen)
    while stack:
        for n in form.members[stack.pop()]:
            for d in form.reads[n]:
                if d not in seen:
                    seen.add(d)
                    stack.append(d)
    for c in range(len(form.members)):
        if c not in seen:
            form.members[c] = []


def drop_implied(form: NormalForm, closure: Closure) -> None:
    """Uses the classes that every derivation needs.

    An e-node is cyclic, and dropped, if its reads need its own class.
    A read of class d is dropped if another read needs d anyway, unless it carries surcharges.
    All classes that a required class needs become required.
    """
    for c, nodes in enumerate(form.members):
        for n in list(nodes):
            if closure.of_reads(form, n) >> closure.index[c] & 1:
                nodes.remove(n)
                continue
            reads = form.reads[n]
            if len(reads) < 2:
                continue
            paired = form.pairs.get(n, {})
            implied = [d for d in reads if d not in paired and any(e != d and closure.needs(e, d) for e in reads)]
            reads.difference_update(implied)
    form.require_roots()
    for c in list(form.required):
        form.required |= closure.members(closure.bits[c])


def drop_dominated(form: NormalForm, closure: Closure) -> None:
    """Drops e-nodes for which another one of the class costs no more and needs nothing more.

    An e-node m needs nothing more than n if the reads of n need all that m reads.
    With surcharges m must not pay more than n, reading or being read, whatever else is chosen.
    Also n may not read a tainted class that m does not read, because activating it might pay.
    """
    budget = DOMINANCE_BUDGET
    tainted = form.find_tainted()
    surcharged = _list_surcharges(form)
    for nodes in form.members:
        if len(nodes) < 2:
            continue
        nodes.sort(key=lambda n: (form.price[n], len(form.reads[n]), n))
        kept: list[tuple[int, int]] = []
        for n in nodes:
            below = closure.of_reads(form, n)
            budget -= len(kept)
            if budget <= 0 or not any(
                mask & ~below == 0 and _pays_no_more(form, m, n, surcharged, tainted) for m, mask in kept
            ):
                kept.append((n, closure.mask(form.reads[n])))
        nodes[:] = [n for n, _ in kept]


def _list_surcharges(form: NormalForm) -> dict[int, dict[int, float]]:
    """Returns {e-node: {reader: surcharge that the reader pays for it}}."""
    found: dict[int, dict[int, float]] = {}
    alive = set(form.nodes()) if form.pairs else set()
    for r, terms in form.pairs.items():
        if r in alive:
            for by_node in terms.values():
                for m, w in by_node.items():
                    found.setdefault(m, {})[r] = w
    return found


def _pays_no_more(form: NormalForm, m: int, n: int, surcharged: dict[int, dict[int, float]], tainted: set[int]) -> bool:
    """Whether m never pays more surcharges than n and reads all tainted classes that n reads."""
    instead = surcharged.get(n, {})
    if any(w > instead.get(r, 0.0) for r, w in surcharged.get(m, {}).items()):
        return False
    theirs = form.pairs.get(n, {})
    for d, by_node in form.pairs.get(m, {}).items():
        other = theirs.get(d, {})
        alive = set(form.members[d])
        if any(w > other.get(k, 0.0) for k, w in by_node.items() if k in alive):
            return False
    return not tainted or not ((form.reads[n] & tainted) - form.reads[m])


def drop_above(form: NormalForm, closure: Closure, upper_bound: float) -> None:
    """Drops e-nodes with which every choice costs more than `upper_bound`, the cost of a known choice.

    Counts the least price of every class that the e-node needs; does nothing if there are negative prices.
    """
    if any(form.price[n] < 0 for n in form.nodes()):
        return
    limit = upper_bound - form.offset
    limit += 1e-9 * max(1.0, abs(limit))
    floor = {c: min(form.price[n] for n in nodes) for c, nodes in enumerate(form.members) if nodes}
    closure.weigh_with(floor)
    required = 0
    for c in form.required:
        required |= closure.bits[c]
    for c, nodes in enumerate(form.members):
        if not nodes:
            continue
        base = required | closure.bits[c]
        least = closure.weight(base) - floor[c]
        for n in list(nodes):
            if least + closure.weight(closure.of_reads(form, n) & ~base) + form.price[n] > limit:
                nodes.remove(n)
    form.require_roots()


def contract(form: NormalForm) -> None:
    """Contracts classes with one e-node into their readers, if the price is then still counted once.

    That is so if it is free and pays no surcharges, or if all readers are in one class, of which at most one is active.
    Nobody pays a surcharge for the only e-node of a class: it has the minimum, which is 0.
    """
    readers = form.readers()
    for c, nodes in enumerate(form.members):
        if len(nodes) != 1 or c in form.required:
            continue
        n = nodes[0]
        by = [r for r in dict.fromkeys(readers[c]) if r in form.members[form.owner[r]] and c in form.reads[r]]
        if not _contractible(form, n, by):
            continue
        form.fix(c)
        for r in by:
            form.price[r] += form.price[n]
            form.decide(r, c, n)
            for d in form.reads[n]:
                form.reads[r].add(d)
                readers[d].append(r)
            _take_over_surcharges(form, r, n)
            if form.owner[r] in form.reads[r]:
                form.remove(r)
    form.require_roots()


def _contractible(form: NormalForm, n: int, readers: list[int]) -> bool:
    """Whether the only e-node of a class can become part of its readers without much growth."""
    one_reader_class = len({form.owner[r] for r in readers}) == 1
    free = form.price[n] == 0 and n not in form.pairs
    small = (len(readers) - 1) * (len(form.reads[n]) - 1) <= GROWTH
    cyclic = form.owner[n] in form.reads[n]  # underivable; the next pass drops it
    return (free or one_reader_class) and small and not cyclic


def _take_over_surcharges(form: NormalForm, r: int, n: int) -> None:
    """E-node r pays the surcharges of n in addition to its own."""
    for d, by_node in form.pairs.get(n, {}).items():
        terms = form.pairs.setdefault(r, {}).setdefault(d, {})
        for m, w in by_node.items():
            terms[m] = terms.get(m, 0.0) + w


def raise_prices(form: NormalForm) -> None:
    """Moves the least price of a required class into the offset, of another into its readers if these share a class."""
    readers = form.readers()
    for c, nodes in enumerate(form.members):
        if not nodes:
            continue
        least = min(form.price[n] for n in nodes)
        if least == 0 or (c not in form.required and len({form.owner[r] for r in readers[c]}) != 1):
            continue
        for n in nodes:
            form.price[n] -= least
        if c in form.required:
            form.offset += least
        else:
            for r in readers[c]:
                form.price[r] += least


def fix_required(form: NormalForm) -> None:
    """Fixes required classes with one e-node left; the classes that it reads become required.

    A class on a cycle is not fixed: its reads still order the classes that they reach.
    Reads of other required classes are dropped if they close no cycle and carry no surcharge.
    """
    successors = {c: {d for n in nodes for d in form.reads[n]} for c, nodes in enumerate(form.members) if nodes}
    cycle = cyclic_component_of(successors)
    for c in list(form.required):
        if len(form.members[c]) == 1:
            _fix(form, c, c in cycle)
    for n in form.nodes():
        _drop_decided_reads(form, n, cycle)


def _fix(form: NormalForm, c: int, on_cycle: bool) -> None:
    """Fixes the required class c to its one e-node."""
    n = form.members[c][0]
    for d in form.reads[n].copy():
        if form.is_fixed(d):
            form.decide(n, d, form.fixed[d])
    form.required |= form.reads[n]
    if on_cycle:
        return
    form.offset += form.price[n]
    for by_node in form.pairs.pop(n, {}).values():
        for m, w in by_node.items():
            form.price[m] += w
    form.fix(c)
    form.required.discard(c)


def _drop_decided_reads(form: NormalForm, n: int, cycle: dict[int, int]) -> None:
    """Drops reads by e-node n of classes that are fixed or required anyway."""
    c = form.owner[n]
    for d in list(form.reads[n]):
        if form.is_fixed(d):
            form.decide(n, d, form.fixed[d])
        elif d in form.required and d not in form.pairs.get(n, {}) and (c not in cycle or cycle[c] != cycle.get(d)):
            form.reads[n].discard(d)


#: Passes over all reductions, at most.
MAX_PASSES = 40

#: Share of the e-nodes that a pass drops, below which it is the last.
#: Of Swin's 27,904 e-nodes the first pass leaves 15,475, the next two 15,270 and 15,264.
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Reduced:
    """A reduced graph in normal form (see `normal_form`); its e-node prices may be negative.

    graph : no forbidden e-nodes, pair deltas >= 0
    offset: added to a cost of `graph` it gives the cost of the original
    nodes : e-node of `graph` -> e-node of the original
    fixed : class of the original -> its choice, if it is reached
    """

    original: ChoiceGraph
    graph: ChoiceGraph
    offset: float
    nodes: tuple[int, ...]
    fixed: dict[int, int]

    @property
    def solved(self) -> bool:
        """Whether nothing is left to choose."""
        return self.graph.n_nodes == 1 and self.graph.n_classes == 1

    def lift(self, choice: Choice) -> dict[int, int]:
        """Returns the choice of the original graph that a choice of the reduced one stands for."""
        whole = dict(self.fixed)
        for n in choice.values():
            original = self.nodes[n]
            if original >= 0:
                whole[int(self.original.node_class[original])] = original
        return reachable(self.original, whole)


def reduce(graph: ChoiceGraph, upper_bound: float = math.inf, time_limit: float = math.inf) -> Reduced:
    """Returns a smaller graph with the same optimum, such as a few hundred of 16,206 e-nodes of extraction-gym's mcm_8.

    Applies all reductions until few e-nodes are dropped, or `time_limit` seconds of computing have passed.
    upper_bound: the cost of a known choice; choices that cost more may be lost.
    Raises Infeasible if no choice exists.
    """
    deadline = clock() + time_limit
    form = NormalForm.of(graph)
    left = graph.n_nodes
    for _ in range(MAX_PASSES):
        drop_underivable(form)
        drop_unreachable(form)
        form.settle()
        fix_required(form)
        contract(form)
        raise_prices(form)
        form.settle()
        drop_underivable(form)
        drop_unreachable(form)
        if is_over(deadline):
            break
        closure = Closure(form)
        drop_implied(form, closure)
        form.settle()
        drop_dominated(form, closure)
        if upper_bound < math.inf:
            drop_above(form, closure, upper_bound)
        before, left = left, len(form.nodes())
        if left > (1 - LEAST_SHARE) * before:
            break
    drop_underivable(form)
    drop_unreachable(form)
    form.settle()
    return export(graph, form)


def export(graph: ChoiceGraph, form: NormalForm) -> Reduced:
    """Returns the remaining form as a ChoiceGraph with dense numbers.

    If nothing remains, the graph has one class of one free e-node, -1 in `nodes`, since a ChoiceGraph needs a root.
    """
    classes = [c for c, nodes in enumerate(form.members) if nodes]
    if not classes:
        return Reduced(graph, ChoiceGraph.build([[(0.0, [])]], [0]), form.offset, (-1,), form.fixed)
    new_class = {c: i for i, c in enumerate(classes)}
    nodes = [n for c in classes for n in form.members[c]]
    new_node = {n: i for i, n in enumerate(nodes)}
    rows = [[(form.price[n], sorted(new_class[d] for d in form.reads[n])) for n in form.members[c]] for c in classes]
    pairs = {
        (new_node[n], new_node[m]): surcharge
        for n, by_class in form.pairs.items()
        for by_node in by_class.values()
        for m, surcharge in by_node.items()
        if n in new_node and m in new_node
    }
    small = ChoiceGraph.build(rows, sorted(new_class[c] for c in form.required), pairs)
    return Reduced(graph, small, form.offset, tuple(nodes), form.fixed)
