"""Reductions of a NormalForm. Each keeps at least one optimal choice; each tells whether it did anything.

Surcharges and negative prices narrow what is allowed; every function says how.
"""

from __future__ import annotations

from .closure import Closure
from .components import cyclic_component_of
from .derivation import derived
from .normal_form import NormalForm

DOMINANCE_BUDGET = 2_000_000
"""Comparisons of one pass of `drop_dominated`: bounds the quadratic work in huge classes."""

GROWTH = 4
"""How many reads contracting a class may add."""


def drop_underivable(form: NormalForm) -> bool:
    """Drop e-nodes that have no acyclic derivation from leaves, or that read a class that has none."""
    found = derived((form.owner[n], form.reads[n]) for n in form.nodes())
    changed = False
    for c, nodes in enumerate(form.members):
        kept = [n for n in nodes if form.reads[n] <= found]
        if len(kept) != len(nodes):
            form.members[c] = kept
            changed = True
    form.require_roots()
    return changed


def drop_unreachable(form: NormalForm) -> bool:
    """Drop classes that nothing can reach from the classes that must be active."""
    seen = set(form.required)
    stack = list(seen)
    while stack:
        for n in form.members[stack.pop()]:
            for d in form.reads[n]:
                if d not in seen:
                    seen.add(d)
                    stack.append(d)
    changed = False
    for c, nodes in enumerate(form.members):
        if nodes and c not in seen:
            form.members[c] = []
            changed = True
    return changed


def drop_implied(form: NormalForm, closure: Closure) -> bool:
    """Use what every derivation needs: cyclic e-nodes go, implied reads go, implied classes must be.

    An e-node whose children need its own class is cyclic. A read of d is implied if another child
    needs d anyway; it stays if it carries surcharges.
    """
    changed = False
    for c, nodes in enumerate(form.members):
        for n in list(nodes):
            if closure.of_reads(form, n) >> closure.index[c] & 1:
                nodes.remove(n)
                changed = True
                continue
            reads = form.reads[n]
            if len(reads) < 2:
                continue
            paired = form.pairs.get(n, {})
            implied = [d for d in reads if d not in paired and any(e != d and closure.needs(e, d) for e in reads)]
            if implied:
                reads.difference_update(implied)
                changed = True
    form.require_roots()
    for c in list(form.required):
        new = closure.members(closure.bits[c]) - form.required
        changed |= bool(new)
        form.required |= new
    return changed


def drop_dominated(form: NormalForm, closure: Closure) -> bool:
    """Drop e-nodes for which another of the class costs no more and needs nothing more.

    "Needs nothing more": what the other reads is needed by what this one reads. With surcharges the
    other must not pay more, reading or being read, whatever else is chosen; and this one may not
    read a tainted class that the other does not, because activating it might pay.
    """
    changed = False
    budget = DOMINANCE_BUDGET
    tainted = form.tainted()
    surcharged = _surcharged_by(form)
    for nodes in form.members:
        if len(nodes) < 2:
            continue
        nodes.sort(key=lambda n: (form.price[n], len(form.reads[n]), n))
        kept: list[tuple[int, int]] = []
        for n in nodes:
            below = closure.of_reads(form, n)
            budget -= len(kept)
            if budget > 0 and any(
                mask & ~below == 0 and _pays_no_more(form, m, n, surcharged, tainted) for m, mask in kept
            ):
                changed = True
            else:
                kept.append((n, closure.mask(form.reads[n])))
        nodes[:] = [n for n, _ in kept]
    return changed


def _surcharged_by(form: NormalForm) -> dict[int, dict[int, float]]:
    """E-node -> the readers that pay a surcharge for reading it."""
    found: dict[int, dict[int, float]] = {}
    alive = set(form.nodes()) if form.pairs else set()
    for r, terms in form.pairs.items():
        if r in alive:
            for by_node in terms.values():
                for m, w in by_node.items():
                    found.setdefault(m, {})[r] = w
    return found


def _pays_no_more(form: NormalForm, m: int, n: int, surcharged: dict[int, dict[int, float]], tainted: set[int]) -> bool:
    """Whether m never pays more surcharges than n and leaves no tainted class of n's unread."""
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


def drop_above(form: NormalForm, closure: Closure, upper_bound: float) -> bool:
    """Drop e-nodes with which every choice costs more than `upper_bound`, a cost already at hand.

    Counts for every class that the e-node needs the least price there. Not with negative prices.
    """
    if any(form.price[n] < 0 for n in form.nodes()):
        return False
    limit = upper_bound - form.offset
    limit += 1e-9 * max(1.0, abs(limit))
    floor = {c: min(form.price[n] for n in nodes) for c, nodes in enumerate(form.members) if nodes}
    closure.weigh_with(floor)
    required = 0
    for c in form.required:
        required |= closure.bits[c]
    changed = False
    for c, nodes in enumerate(form.members):
        if not nodes:
            continue
        base = required | closure.bits[c]
        least = closure.weight(base) - floor[c]
        for n in list(nodes):
            if least + closure.weight(closure.of_reads(form, n) & ~base) + form.price[n] > limit:
                nodes.remove(n)
                changed = True
    form.require_roots()
    return changed


def contract(form: NormalForm) -> bool:
    """Contract classes with one e-node into their readers, where that counts its price once.

    That is so if the price is 0 and it pays no surcharges, or if all readers are in one class, of
    which at most one is active. Being read it can carry no surcharge: the only choice is the minimum.
    """
    changed = False
    readers = form.readers()
    for c, nodes in enumerate(form.members):
        if len(nodes) != 1 or c in form.required:
            continue
        n = nodes[0]
        by = [r for r in dict.fromkeys(readers[c]) if r in form.members[form.owner[r]] and c in form.reads[r]]
        if not _contractible(form, n, by):
            continue
        changed = True
        form.fix(c)
        for r in by:
            form.price[r] += form.price[n]
            if not form.decide(r, c, n):
                continue
            for d in form.reads[n]:
                form.reads[r].add(d)
                readers[d].append(r)
            _take_over_surcharges(form, r, n)
            if form.owner[r] in form.reads[r]:
                form.remove(r)
    form.require_roots()
    return changed


def _contractible(form: NormalForm, n: int, readers: list[int]) -> bool:
    """Whether the only e-node of its class can become part of the e-nodes that read it, without much growth."""
    one_reader_class = len({form.owner[r] for r in readers}) == 1
    free = form.price[n] == 0 and n not in form.pairs
    small = (len(readers) - 1) * (len(form.reads[n]) - 1) <= GROWTH
    cyclic = form.owner[n] in form.reads[n]  # underivable; the next pass drops it
    return (free or one_reader_class) and small and not cyclic


def _take_over_surcharges(form: NormalForm, r: int, n: int) -> None:
    """E-node r pays from now on also what n pays."""
    for d, by_node in form.pairs.get(n, {}).items():
        terms = form.pairs.setdefault(r, {}).setdefault(d, {})
        for m, w in by_node.items():
            terms[m] = terms.get(m, 0.0) + w


def raise_prices(form: NormalForm) -> bool:
    """Move the least price of a class up into its readers if they are all in one class, or out of it all."""
    changed = False
    readers = form.readers()
    for c, nodes in enumerate(form.members):
        if not nodes:
            continue
        least = min(form.price[n] for n in nodes)
        if least == 0 or (c not in form.required and len({form.owner[r] for r in readers[c]}) != 1):
            continue
        changed = True
        for n in nodes:
            form.price[n] -= least
        if c in form.required:
            form.offset += least
        else:
            for r in readers[c]:
                form.price[r] += least
    return changed


def fix_required(form: NormalForm) -> bool:
    """Fix classes that must be active and have one e-node left; their reads must be active too.

    A class on a cycle stays: its reads still order what they reach. Reads of other classes that must
    be active are dropped where they can close no cycle and carry no surcharge.
    """
    successors = {c: {d for n in nodes for d in form.reads[n]} for c, nodes in enumerate(form.members) if nodes}
    cycle = cyclic_component_of(successors)
    changed = False
    for c in list(form.required):
        if len(form.members[c]) == 1:
            changed |= _fix(form, c, c in cycle)
    for n in form.nodes():
        changed |= _drop_decided_reads(form, n, cycle)
    form.require_roots()
    return changed


def _fix(form: NormalForm, c: int, on_cycle: bool) -> bool:
    """Fix the class c, which must be active, to its one e-node. Changed?"""
    n = form.members[c][0]
    if not all(form.decide(n, d, form.fixed[d]) for d in form.reads[n].copy() if form.is_fixed(d)):
        return True
    changed = not form.reads[n] <= form.required
    form.required |= form.reads[n]
    if on_cycle:
        return changed
    form.offset += form.price[n]
    for by_node in form.pairs.pop(n, {}).values():
        for m, w in by_node.items():
            form.raise_price(m, w)
    form.fix(c)
    form.required.discard(c)
    return True


def _drop_decided_reads(form: NormalForm, n: int, cycle: dict[int, int]) -> bool:
    """Drop reads of e-node n that are fixed, or of classes that must be active anyway. Changed?"""
    c, changed = form.owner[n], False
    for d in list(form.reads[n]):
        if form.is_fixed(d):
            changed = True
            if not form.decide(n, d, form.fixed[d]):
                break
        elif d in form.required and d not in form.pairs.get(n, {}) and (c not in cycle or cycle[c] != cycle.get(d)):
            form.reads[n].discard(d)
            changed = True
    return changed
