"""`asp`: formulates extraction as an answer set program, which clingo solves.

    { x(n) } :- reads of n are active.     active(c) :- x(n), n in c.     at most one x per class

In a stable model every active atom is founded on atoms that are active before it.
Therefore the semantics guarantees acyclicity without levels or big constants.
Roots are required, and the price is minimised.
Constraints that follow from the structure of the graph are stated too, because they make cores small.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from extraction import exact
from extraction.check import Choice
from extraction.derivation import strong_components
from extraction.graph import ChoiceGraph
from extraction.protocol import Ending, SolverReport
from extraction.stopping import POLL, stop_asked

if TYPE_CHECKING:
    from clingo import Control
    from clingo.backend import Backend
    from clingo.solving import Model, SolveHandle


@dataclass(frozen=True)
class Component:
    """A strongly connected component of the graph of classes, such as one value in several layouts.

    classes : its classes, one or more
    entries : its e-nodes that read no class of it; if the component is active, one of them is chosen
    avoiding: {component j that entries read: the entries that do not read it}

    If this component is active, then each component j is, too, or an entry in `avoiding[j]` is chosen.
    """

    classes: tuple[int, ...]
    entries: tuple[int, ...]
    avoiding: dict[int, tuple[int, ...]]


def components(graph: ChoiceGraph) -> list[Component]:
    """Returns all components, each after those that it can reach."""
    strong = strong_components(exact.successors(graph))
    number = {c: i for i, classes in enumerate(strong) for c in classes}
    found = []
    for i, classes in enumerate(strong):
        reads = {n: {number[d] for d in graph.children(n)} for c in classes for n in graph.class_nodes(c)}
        entries = tuple(n for n, read in reads.items() if i not in read)
        avoiding = {
            j: tuple(n for n in entries if j not in reads[n]) for j in sorted(set().union(*(reads[n] for n in entries)))
        }
        found.append(Component(tuple(classes), entries, avoiding))
    return found


@dataclass(frozen=True)
class SurchargeLevel:
    """One level of the surcharges between two classes.

    `high - low` is paid if one of `readers` and one of `read` are both chosen.

    readers: e-nodes of one class
    read   : e-nodes of another class
    low    : the surcharge up to the lower levels
    high   : the surcharge with this level
    """

    readers: tuple[int, ...]
    read: tuple[int, ...]
    low: float
    high: float


def surcharge_levels(graph: ChoiceGraph) -> list[SurchargeLevel]:
    """Returns the surcharges of a graph by levels.

    The surcharge of a reader for an e-node is the sum of the levels that name both.
    Readers of one class with equal levels share them, because at most one of them is chosen.
    """
    owner = graph.node_class.tolist()
    groups: dict[tuple[int, int, tuple[int, ...], float, float], list[int]] = {}
    for (n, d), paid in graph.pair_terms().items():
        levels = sorted(set(paid.values()))
        for low, high in zip([0.0, *levels], levels):
            read = tuple(m for m in graph.class_nodes(d) if paid.get(m, 0.0) >= high)
            groups.setdefault((owner[n], d, read, low, high), []).append(n)
    return [SurchargeLevel(tuple(readers), read, low, high) for (_, _, read, low, high), readers in groups.items()]


#: Largest scaled price: clingo keeps a weight in a signed 32-bit integer.
LARGEST = 2**31 - 1


class Scale:
    """Rounds prices to multiples of 1 / `factor`.

    The factor is the least power of ten that represents all prices to 1e-7 of the largest one, as measured costs are
    often decimals in single precision. If no such factor fits the weights, it is the largest that does.
    slack: the most that rounding can add to any choice, in scaled units.
    """

    def __init__(self, graph: ChoiceGraph):
        surcharges = list(graph.pair_costs.values())
        prices = np.concatenate([graph.cost, np.array(surcharges, dtype=float)])
        top = float(np.abs(prices).max(initial=0.0)) or 1.0
        factor = min(1.0, LARGEST / top)
        while (
            top * factor * 10 <= LARGEST
            and np.abs(prices * factor - np.round(prices * factor)).max() > 1e-7 * top * factor
        ):
            factor *= 10
        self.factor = factor
        worst: dict[tuple[int, ...], float] = {}  # by class, and by two classes
        owner = graph.node_class.tolist()
        groups = [(c,) for c in owner] + [(owner[n], owner[m]) for n, m in graph.pair_costs]
        for group, price in zip(groups, prices.tolist()):
            worst[group] = max(worst.get(group, 0.0), self.round(price) - price * factor)
        self.slack = sum(worst.values())

    def round(self, price: float) -> int:
        """Returns `price` in scaled units."""
        return round(price * self.factor)

    def bound(self, value: float) -> float:
        """Returns a lower bound on prices from a lower bound in scaled units."""
        return (value - self.slack) / self.factor


#: An atom of the program, and what it adds to the scaled price of a model in which it is true.
Weighted = tuple[int, int]

#: Options of clingo for core-guided search.
#: Cores of the most expensive atoms come first, and each is shrunk; the bound rises to a proof.
SHRUNK_CORES = ("--opt-strategy=usc,oll,stratify", "--opt-usc-shrink=inv")


@dataclass(frozen=True)
class Asp:
    """clingo with these options.

    ordered: the program also states which components an active component needs (`Component.avoiding`).
    This helps if most components are needed, as in graphs with one value in many layouts; otherwise it slows it down.
    conflicts: the number of conflicts after which the search ends; None: there is no such limit.
    """

    options: tuple[str, ...] = SHRUNK_CORES
    ordered: bool = False
    conflicts: int | None = None

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        ending = self.solve_rounded(graph, report, deadline=deadline, seed=seed, warm_start=warm_start)
        # The proof is of rounded prices: the reported bound takes the rounding into account.
        return "limit" if ending == "optimal" else ending

    def solve_rounded(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        """Solves like `solve`; an optimum is one of the rounded prices (`Scale`)."""
        encoding = Encoding(graph, self, seed)
        # Equal prices are allowed: the proof must not depend on the rounding of the warm start.
        at_most = None if warm_start is None else encoding.cost(warm_start)
        return encoding.solve(report, deadline, at_most=at_most)


extract = exact.extractor("asp", Asp())


class Encoding:
    """`graph`, which must be in normal form, as a ground program in a clingo Control."""

    def __init__(self, graph: ChoiceGraph, way: Asp, seed: int):
        import clingo

        self.graph = graph
        self.ordered = way.ordered
        self.scale = Scale(graph)
        self.surcharge_levels = surcharge_levels(graph)
        limit = "umax" if way.conflicts is None else way.conflicts
        self.control = clingo.Control(["--warn=none", f"--seed={seed}", f"--solve-limit={limit}", *way.options])
        with self.control.backend() as backend:
            self._build(backend)

    def _build(self, backend: Backend) -> None:
        graph = self.graph
        self.active = [backend.add_atom() for _ in range(graph.n_classes)]
        self.node = [backend.add_atom() for _ in range(graph.n_nodes)]
        self.price = [self.scale.round(x) for x in graph.cost.tolist()]
        self._choices(backend)
        weights = self._prices(backend)
        weights += self._surcharges(backend)
        self._require_readers(backend)
        backend.add_minimize(0, [(x, w) for x, w in weights if w])

    def _choices(self, backend: Backend) -> None:
        """Adds at most one e-node per class, chosen only if all that it reads is active; roots must be active."""
        graph = self.graph
        for n, x in enumerate(self.node):
            backend.add_rule([x], [self.active[d] for d in sorted(set(graph.children(n)))], choice=True)
            backend.add_rule([self.active[int(graph.node_class[n])]], [x])
        for c in range(graph.n_classes):
            nodes = [self.node[n] for n in graph.class_nodes(c)]
            if len(nodes) > 1:
                both = backend.add_atom()
                backend.add_weight_rule([both], 2, [(x, 1) for x in nodes])
                backend.add_rule([], [both])
        for r in graph.roots:
            backend.add_rule([], [-self.active[r]])

    def _require_readers(self, backend: Backend) -> None:
        """A tainted class may be active only if a chosen e-node reads it."""
        tainted = exact.find_tainted(self.graph) - set(self.graph.roots)
        needed = {d: backend.add_atom() for d in tainted}
        for n in range(self.graph.n_nodes):
            for d in tainted.intersection(self.graph.children(n)):
                backend.add_rule([needed[d]], [self.node[n]])
        for d, atom in needed.items():
            backend.add_rule([], [self.active[d], -atom])

    def _prices(self, backend: Backend) -> list[Weighted]:
        """Returns weighted atoms that add up to the prices of the choice."""
        weights: list[Weighted] = []
        rest = self.price[:]
        active: list[int] = []
        for component in components(self.graph):
            if len(component.classes) == 1:
                active.append(self.active[component.classes[0]])
            else:
                active.append(self._component(backend, component))
                weights += self._entries(backend, component, active[-1], rest)
            for other, avoiding in component.avoiding.items() if self.ordered else ():
                backend.add_rule([], [active[-1], -active[other], *(-self.node[n] for n in avoiding)])
        return weights + [w for c in range(self.graph.n_classes) for w in self._class_price(backend, c, rest)]

    def _component(self, backend: Backend, component: Component) -> int:
        """Returns an atom for "the component is active": one of its entries is chosen."""
        active = self._new_any(backend, component.entries)
        for c in component.classes:
            backend.add_rule([], [self.active[c], -active])
        return active

    def _entries(self, backend: Backend, component: Component, active: int, rest: list[int]) -> list[Weighted]:
        """Returns weighted atoms for the minimum price of the component's entries, and subtracts this price from
        `rest`.

        One atom counts the price if the component is active.
        For each k > 1 another atom counts the price if k entries are chosen.
        Without these atoms a core would need one atom for each class of the component.
        """
        least = min(self.price[n] for n in component.entries)
        if least <= 0:
            return []
        weights = [(active, least)]
        for k in range(2, len({int(self.graph.node_class[n]) for n in component.entries}) + 1):
            weights.append((backend.add_atom(), least))
            backend.add_weight_rule([weights[-1][0]], k, [(self.node[n], 1) for n in component.entries])
        for n in component.entries:
            rest[n] -= least
        return weights

    def _class_price(self, backend: Backend, c: int, price: Sequence[int]) -> list[Weighted]:
        """Returns weighted atoms that add up to the price of c's choice.

        The atom "c is active" has the minimum price.
        The atom "the choice costs at least the next level" has the step from one price level to the next.
        Cores over one atom for a class are far smaller than cores over all e-nodes of the class.
        """
        nodes = self.graph.class_nodes(c)
        levels = sorted({price[n] for n in nodes})
        weights = [(self.active[c], levels[0])] if levels else []
        for low, high in itertools.pairwise(levels):
            weights.append((self._new_any(backend, [n for n in nodes if price[n] >= high]), high - low))
        return weights

    def _surcharges(self, backend: Backend) -> list[Weighted]:
        """Returns weighted atoms that add up to the surcharges of the choice."""
        weights = []
        for level in self.surcharge_levels:
            readers, read = (self._any(backend, nodes) for nodes in (level.readers, level.read))
            weights.append((backend.add_atom(), self._scale(level)))
            backend.add_rule([weights[-1][0]], [readers, read])
        return weights

    def _any(self, backend: Backend, nodes: Sequence[int]) -> int:
        """Returns an atom for "one of `nodes` is chosen"."""
        return self.node[nodes[0]] if len(nodes) == 1 else self._new_any(backend, nodes)

    def _new_any(self, backend: Backend, nodes: Sequence[int]) -> int:
        """Returns a new atom for "one of `nodes` is chosen"."""
        atom = backend.add_atom()
        for n in nodes:
            backend.add_rule([atom], [self.node[n]])
        return atom

    def choice(self, model: Model) -> dict[int, int]:
        """Returns the choice that a model stands for."""
        return {int(self.graph.node_class[n]): n for n, x in enumerate(self.node) if model.is_true(x)}

    def cost(self, choice: Choice) -> int:
        """Returns the scaled price of a choice."""
        chosen = set(choice.values())
        return sum(self.price[n] for n in chosen) + sum(
            self._scale(level)
            for level in self.surcharge_levels
            if not chosen.isdisjoint(level.readers) and not chosen.isdisjoint(level.read)
        )

    def _scale(self, level: SurchargeLevel) -> int:
        """Returns the scaled price of a level; the levels of a surcharge add up to the rounded one (`Scale`)."""
        return self.scale.round(level.high) - self.scale.round(level.low)

    def solve(self, report: SolverReport, deadline: float, *, at_most: int | None = None) -> Ending:
        """Minimises until the result is proved ("optimal") or a limit is reached ("limit").

        A limit is `conflicts`, `deadline`, or a request of the caller to stop (`stopping`).
        deadline: on the clock of time.perf_counter.
        at_most: the scaled price of a known choice; choices above it are not looked for.
        Choices and lower bounds go to `report`.
        """
        mode: Any = self.control.configuration.solve
        mode.opt_mode = "opt" if at_most is None else f"opt,{at_most}"
        last = 0

        def on_model(model: Model) -> None:
            nonlocal last
            choice = self.choice(model)
            last = self.cost(choice)
            report.choice(choice)

        def on_unsat(bounds: Sequence[int]) -> None:
            if bounds:
                report.bound(self.scale.bound(bounds[0]))

        with _solving(self.control, on_model, on_unsat) as handle:
            while not handle.wait(min(POLL, max(0.0, deadline - time.perf_counter()))):
                if time.perf_counter() >= deadline or stop_asked():
                    handle.cancel()
                    return "limit"
            result = handle.get()
        if not (result.satisfiable and result.exhausted):
            return "limit"
        report.bound(self.scale.bound(last))
        return "optimal"


@contextmanager
def _solving(
    control: Control, on_model: Callable[[Model], None], on_unsat: Callable[[Sequence[int]], None]
) -> Iterator[SolveHandle]:
    """Lets clingo solve in a separate thread, which has ended when the block ends.

    An interrupt waits until the thread has a handle, which clingo may take seconds to make: an earlier one would leave
    the thread behind, and the process would be aborted when it ends.
    """
    handler, asked = signal.getsignal(signal.SIGINT), list[tuple[int, FrameType | None]]()
    waits = threading.current_thread() is threading.main_thread() and callable(handler)
    if waits:
        signal.signal(signal.SIGINT, lambda number, frame: asked.append((number, frame)))
    try:
        with control.solve(on_model=on_model, on_unsat=on_unsat, async_=True) as handle:
            if waits:
                signal.signal(signal.SIGINT, handler)
            if asked and callable(handler):
                handler(*asked[0])
            yield handle
    finally:
        if waits:
            signal.signal(signal.SIGINT, handler)
