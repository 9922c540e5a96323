"""Reductions of a NormalForm.

Each keeps at least one optimal choice.
Surcharges and negative prices restrict the reductions; every function says how.
"""

from __future__ import annotations

from extraction.closure import Closure
from extraction.components import cyclic_component_of
from extraction.derivation import derive
from extraction.normal_form import NormalForm

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

    Counts the least price of every class that the e-node needs.
    Does nothing if there are negative prices.
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

    That is so if the e-node is free and pays no surcharges.
    It is also so if all readers are in one class, of which at most one e-node is active.
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
    """Moves the least price of a class into its readers if these are all in one class.

    The least price of a required class moves into the offset.
    """
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
