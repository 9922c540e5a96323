"""Local search on a choice: change one class at a time, counting exactly what changes.

Removing an e-node frees the part that nothing else reads (its maximum fanout-free cone).
Inserting one activates the classes that were not yet active.
Reference counts give the cost of both in time proportional to the change.
This is the "exact area" recovery of technology mapping.
(Mishchenko, Chatterjee, Brayton, "Improvements to technology mapping for LUT-based FPGAs", 2007.)
"""

from __future__ import annotations

import random

from extraction.check import Choice
from extraction.graph import Prices
from extraction.stopping import is_over

#: Visits of e-nodes after which `descend` stops by default: about a second.
WORK = 2_000_000

#: Classes between looks at the clock; a look takes as long as a class.
LOOK = 64


class LocalSearch:
    """A choice under reference counts.

    choice: also has picks for classes that are not active.
    cost: of the active classes, by `Prices`.
    work: visits of e-nodes so far.
    """

    def __init__(self, prices: Prices, choice: Choice):
        self.prices, self.graph = prices, prices.graph
        self.choice = dict(choice)
        self.references = [0] * self.graph.n_classes
        self.owner = self.graph.node_class.tolist()
        self.cost = 0.0
        self.work = 0
        for r in self.graph.roots:
            self.references[r] += 1
            if self.references[r] == 1:
                self.cost += self._count(self.choice[r], 1)

    def descend(self, deadline: float, rng: random.Random, rounds: int = 20, work: int = WORK) -> None:
        """Improves the choice by single changes and joint ones; sideways moves are taken at random.

        Ends when no change helps, or when `rounds`, `work` or the time is used up.
        deadline: on `stopping.clock`.
        """
        self.work = 0
        for _ in range(rounds):
            before = self.cost
            active = [c for c, k in enumerate(self.references) if k]
            rng.shuffle(active)
            for i, c in enumerate(active):
                if self.work > work or (i % LOOK == 0 and is_over(deadline)):
                    return
                if self.references[c]:
                    self._improve(c, rng)
            least = before - 1e-9 * max(1.0, abs(before))
            if self.cost < least:
                continue
            self._improve_jointly(deadline, work)
            if self.cost >= least:
                return

    def _improve(self, c: int, rng: random.Random) -> None:
        """Tries each e-node of class c in turn and ends at the cheapest."""
        nodes = self.graph.class_nodes(c)
        if len(nodes) == 1:
            return
        best, least, now = self.choice[c], 0.0, 0.0  # costs relative to the first choice
        slack = 1e-12 * max(1.0, abs(self.cost))
        for n in nodes:
            if n == best or n in self.graph.forbidden or any(d not in self.choice for d in self.prices.reads[n]):
                continue
            now += self.switch(c, n)
            better = now < least - slack or (now <= least + slack and rng.random() < 0.2)
            if better and not self.cyclic(c):
                best, least = n, now
        if self.choice[c] != best:
            self.switch(c, best)

    def _improve_jointly(self, deadline: float, work: int) -> None:
        """For each inactive class, switches all active classes that can read it, and keeps improvements.

        A part that is too expensive for one reader may be cheap for several: one product for all steps of a recurrence.
        """
        slack = 1e-9 * max(1.0, abs(self.cost))
        for shared in range(self.graph.n_classes):
            if self.work > work or (shared % LOOK == 0 and is_over(deadline)):
                return
            if self.references[shared] or shared not in self.choice or not self.prices.node[self.choice[shared]]:
                continue
            joint = self._readers_to_be(shared)
            if len(joint) < 2:
                continue
            before, changed = self.cost, list[tuple[int, int]]()
            for c, n in joint.items():
                if self.references[c]:
                    changed.append((c, self.choice[c]))
                    self.switch(c, n)
            if self.cost >= before - slack or any(self.references[c] and self.cyclic(c) for c, _ in changed):
                for c, old in reversed(changed):
                    self.switch(c, old)

    def _readers_to_be(self, shared: int) -> dict[int, int]:
        """Returns {active class: its first allowed e-node that reads the class `shared`}."""
        joint: dict[int, int] = {}
        for n in self.prices.readers[shared]:
            c = self.owner[n]
            if (
                self.references[c]
                and n not in self.graph.forbidden
                and all(d in self.choice for d in self.prices.reads[n])
            ):
                joint.setdefault(c, n)
        return joint

    def active(self) -> dict[int, int]:
        """Returns the choice of the classes that the roots reach."""
        return {c: self.choice[c] for c, k in enumerate(self.references) if k}

    def switch(self, c: int, n: int) -> float:
        """Makes n the choice of the active class c; returns the change of the total."""
        old = self.choice[c]
        change = 0.0
        paired = self.prices.paired
        for r in self.prices.readers[c] if paired else ():
            if r in paired and c in paired[r] and self.references[self.owner[r]] and self.choice[self.owner[r]] == r:
                change += paired[r][c].get(n, 0.0) - paired[r][c].get(old, 0.0)
        # The new one before the old one: classes that both need must stay active in between.
        self.choice[c] = n
        change += self._count(n, 1)
        change -= self._count(old, -1)
        self.cost += change
        return change

    def _count(self, n: int, step: int) -> float:
        """Adds `step`, 1 or -1, to the references of the classes that n reads, and of all that changes with them.

        Returns the price of n and of all classes that become active, or stop being active, by it.
        """
        node, reads, paired = self.prices.node, self.prices.reads, self.prices.paired
        references, choice, turned = self.references, self.choice, 1 if step > 0 else 0
        price = 0.0
        stack = [n]
        add = stack.append
        for n in stack:
            if n in paired:
                edges = 0.0  # `Prices.edges` inlined: calling it takes half of the time
                for d, prices in paired[n].items():
                    m = choice[d]
                    if m in prices:
                        edges += prices[m]
                price += node[n] + edges
            else:
                price += node[n]
            for d in reads[n]:
                count = references[d] + step
                references[d] = count
                if count == turned:
                    add(choice[d])
        self.work += len(stack)
        return price

    def cyclic(self, c: int) -> bool:
        """Whether c now needs itself."""
        seen: set[int] = set()
        reads, choice = self.prices.reads, self.choice
        stack = list(reads[choice[c]])
        while stack:
            d = stack.pop()
            if d == c:
                self.work += len(seen)
                return True
            if d not in seen:
                seen.add(d)
                stack += reads[choice[d]]
        self.work += len(seen)
        return False
