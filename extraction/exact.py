"""The common part of the exact extractors: greedy first, then reductions, then a solver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from extraction.check import Choice, check
from extraction.dag_greedy import RESTART_NODES, RESTARTS
from extraction.dag_greedy import extract as greedy
from extraction.graph import ChoiceGraph, SolverUnavailable
from extraction.normal_form import NormalForm
from extraction.protocol import Ending, Extraction, Extractor, Solver, closes
from extraction.reductions import Reduced, reduce
from extraction.stopping import clock, stopping_on_interrupt


@dataclass
class State:
    """The known facts about one graph, as a SolverReport.

    incumbent: the best choice, empty before the first
    cost     : its cost, or inf
    least    : no choice costs less
    on_better: called with each new incumbent and its cost
    """

    graph: ChoiceGraph
    incumbent: dict[int, int] = field(default_factory=dict)
    cost: float = float("inf")
    least: float = float("-inf")
    on_better: Callable[[Choice, float], None] = lambda choice, cost: None

    @property
    def proved(self) -> bool:
        """Whether the incumbent is proved optimal."""
        return closes(self.least, self.cost, self.graph.integral)

    def offer(self, choice: Choice) -> None:
        """Takes `choice` as the incumbent if it is better. Raises InvalidExtraction."""
        cost = check(self.graph, choice)
        if cost < self.cost:
            self.incumbent, self.cost = dict(choice), cost
            self.on_better(choice, cost)

    def choice(self, choice: dict[int, int]) -> None:
        """Takes a choice that a solver reports, like `offer`."""
        self.offer(choice)

    def bound(self, value: float) -> None:
        """Takes a lower bound that a solver reports."""
        self.least = max(self.least, value)

    def end(self, ending: Ending) -> None:
        """Takes what a solver proved at its end."""
        if ending == "optimal":
            self.least = max(self.least, self.cost)


#: Part of the time limit that greedy extraction may use.
#: It limits its own work to a few seconds (`local_search.WORK`), so only tight limits cut it short.
#: It may then find less than `dag_greedy` alone.
GREEDY_SHARE = 0.5

#: Part of the time limit for greedy extraction on the reduced graph.
AGAIN_SHARE = 0.2


def extractor(name: str, solver: Solver) -> Extractor:
    """Returns the extractor called `name`, whose solver gets what greedy extraction and reductions leave open."""

    def extract(
        graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
    ) -> Extraction:
        """Raises Infeasible, and SolverUnavailable if a library of the solver is not installed."""
        run = ExactSearch(graph, time_limit, name)
        with run.interruptible():
            state = run.start(seed, warm_start)
            if not run.proved:
                deadline = time.perf_counter() + run.time_limit - run.worked
                try:
                    ending = solver.solve(state.graph, state, deadline=deadline, seed=seed, warm_start=state.incumbent)
                except ImportError as e:
                    raise SolverUnavailable(f"{name}: {e}") from e
                state.end(ending)
        return run.result()

    return extract


class ExactSearch:
    """One extraction under way: the incumbent, the reduced graph, and what is known of it.

    If the costs have a unit, `graph`, `cost`, `trace` and `lower_bound` count whole units.
    """

    def __init__(self, graph: ChoiceGraph, time_limit: float, name: str):
        self.original = graph
        self.graph, self.unit = graph.in_units()
        self.name = name
        self.begin, self._clock = time.perf_counter(), clock()
        self.time_limit = time_limit
        self.choice: dict[int, int] = {}
        self.cost: float | int = float("inf")
        self.trace: list[tuple[float, float]] = []
        self.reduced: Reduced | None = None
        self.state: State | None = None
        self.interrupted = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within it Ctrl-C ends the search if there is a choice already; otherwise it raises KeyboardInterrupt."""
        try:
            with stopping_on_interrupt() as interrupted:
                yield
                if interrupted():
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            if not self.choice:
                raise
            self.interrupted = True

    @property
    def worked(self) -> float:
        """Seconds of computing in this thread, without those of the solvers."""
        return clock() - self._clock

    def start(self, seed: int, warm_start: Choice | None) -> State:
        """Runs greedy extraction and reductions; returns the state of the reduced graph, with the incumbent in it."""
        self._greedy(seed, warm_start, restarts=1)
        self.reduced = reduce(self.graph, self.cost, self.time_limit - self.worked)
        small = self.reduced.graph
        self.state = state = State(small, on_better=self._better)
        if self.reduced.solved:
            state.offer({0: 0})
            state.least = state.cost
            return state
        if self.graph.n_nodes <= RESTART_NODES:
            # The other passes of `dag_greedy`; most graphs are solved before these are needed.
            self._greedy(seed, warm_start, restarts=RESTARTS)
        state.least = floor(small)
        limit = AGAIN_SHARE * self.time_limit
        near = carry(self.reduced, self.choice, limit)
        state.offer(near)
        state.offer(greedy(small, time_limit=limit, seed=seed, starts=[near]).choice)
        return state

    def _greedy(self, seed: int, warm_start: Choice | None, restarts: int) -> None:
        begin = time.perf_counter() - self.begin
        limit = GREEDY_SHARE * self.time_limit
        found = greedy(self.graph, time_limit=limit, seed=seed, warm_start=warm_start, restarts=restarts)
        if found.cost < self.cost:
            self.trace += [(begin + t, c) for t, c in found.trace if c < self.cost]
            self.choice, self.cost = found.choice, found.cost

    def _better(self, choice: Choice, cost: float) -> None:
        assert self.reduced is not None
        whole = self.reduced.lift(choice)
        cost = check(self.graph, whole)
        if cost < self.cost:
            self.choice, self.cost = whole, cost
            self.trace.append((time.perf_counter() - self.begin, cost))

    @property
    def lower_bound(self) -> float:
        """The best lower bound on the cost in the original graph."""
        if self.reduced is None or self.state is None:
            return float("-inf")
        return self.state.least + self.reduced.offset

    @property
    def proved(self) -> bool:
        """Whether the incumbent is proved optimal."""
        return closes(self.lower_bound, self.cost, self.graph.integral)

    def result(self) -> Extraction:
        """Returns the extraction."""
        optimal = self.proved
        cost = check(self.original, self.choice)
        bound = float(cost) if optimal else min(self.unit * self.lower_bound, float(cost))
        trace = [(t, self.original.total(self.unit * c)) for t, c in self.trace]
        return Extraction(
            self.choice,
            cost,
            bound,
            "optimal" if optimal else "feasible",
            trace,
            time.perf_counter() - self.begin,
            self.name,
            self.interrupted,
        )


def carry(reduced: Reduced, choice: Choice, time_limit: float) -> Choice:
    """Returns a choice of the reduced graph that is near to a choice of the original.

    Reductions may have dropped e-nodes of it that others replace at no more cost.
    So greedy extraction looks for a choice with few other e-nodes, which is not always the nearest one.
    """
    graph, kept = reduced.graph, set(choice.values())
    away = 1.0 + float(np.abs(graph.cost).sum())
    far = np.array([0.0 if n in kept else away for n in reduced.nodes])
    return greedy(replace(graph, cost=graph.cost + far), time_limit=time_limit, restarts=1).choice


def floor(graph: ChoiceGraph) -> float:
    """Returns a lower bound on the cost: the sum of roots' least prices and of other classes' negative least prices."""
    least = [float(graph.cost[graph.class_start[c] : graph.class_start[c + 1]].min()) for c in range(graph.n_classes)]
    roots = set(graph.roots)
    return sum(x if c in roots else min(0.0, x) for c, x in enumerate(least))


def find_tainted(graph: ChoiceGraph) -> set[int]:
    """Returns the classes of a normal-form graph from which a negative price can be reached."""
    return NormalForm.of(graph).find_tainted() if (graph.cost < 0).any() else set()


def successors(graph: ChoiceGraph) -> dict[int, set[int]]:
    """Returns {class: the classes that its e-nodes read}."""
    return {c: {d for n in graph.class_nodes(c) for d in graph.children(n)} for c in range(graph.n_classes)}
