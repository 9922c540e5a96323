"""What the exact extractors share: greedy first, then reductions, then solvers in worker processes."""

from __future__ import annotations

import time

from .check import Choice, check
from .dag_greedy import RESTART_NODES, RESTARTS
from .dag_greedy import extract as greedy
from .errors import Infeasible, NoChoiceFound, SolverUnavailable
from .graph import ChoiceGraph
from .normal_form import NormalForm
from .race import Entrant, Standing, race
from .reduce import Reduced, reduce
from .result import Extraction, closes

GREEDY_SHARE = 0.5
"""Part of the time limit that greedy extraction may use. It bounds its own work, a few seconds at most
(see `local_search.WORK`), so only tight limits cut it short, and then it may find less than alone."""

AGAIN_SHARE = 0.2
"""Part of the time limit for greedy extraction on the reduced graph."""


def extract(graph: ChoiceGraph, solver: str, *, time_limit: float, seed: int, warm_start: Choice | None) -> Extraction:
    """Extract with one solver, a module of this package that has `solve`.

    Raises Infeasible, NoChoiceFound, and SolverUnavailable if the solver failed from the start.
    """
    run = Run(graph, time_limit, solver)
    try:
        run.start(seed, warm_start)
        if not run.proved:
            race(run.standing, [Entrant(solver, 0.0, run.deadline)], seed)
    except KeyboardInterrupt:
        if not run.choice:
            raise
        run.interrupted = True
    if run.standing is not None and not run.standing.heard and run.standing.failures:
        raise SolverUnavailable(f"{solver}: {next(iter(run.standing.failures.values()))}")
    return run.result()


class Run:
    """One extraction under way: the incumbent, the reduced graph, and what is known of it.

    Works in whole numbers where the costs have a grain: `graph`, `cost`, `trace` and `lower_bound` count grains.
    """

    def __init__(self, graph: ChoiceGraph, time_limit: float, name: str):
        self.original = graph
        self.graph, self.grain = graph.in_grains()
        self.name = name
        self.begin = time.perf_counter()
        self.time_limit = time_limit
        self.deadline = self.begin + time_limit
        self.choice: dict[int, int] = {}
        self.cost: float | int = float("inf")
        self.trace: list[tuple[float, float]] = []
        self.reduced: Reduced | None = None
        self.standing: Standing | None = None
        self.interrupted = False

    def start(self, seed: int, warm_start: Choice | None) -> None:
        """Greedy extraction, reduction, and the incumbent carried over to the reduced graph."""
        self._greedy(seed, warm_start, restarts=1)
        self.reduced = reduce(self.graph, self.cost, self.deadline - time.perf_counter())
        small = self.reduced.graph
        self.standing = Standing(small, small.integral, on_better=self._better)
        if self.reduced.solved:
            self.standing.offer({0: 0})
            self.standing.bound = self.standing.cost
            return
        if self.graph.n_nodes <= RESTART_NODES:
            # The rest of what `dag_greedy` does; most graphs are solved before it would be needed.
            self._greedy(seed, warm_start, restarts=RESTARTS)
        self.standing.bound = floor(small)
        try:
            again = greedy(small, time_limit=AGAIN_SHARE * self.time_limit, seed=seed)
            self.standing.offer(again.choice)
        except NoChoiceFound:
            pass

    def _greedy(self, seed: int, warm_start: Choice | None, restarts: int) -> None:
        begin = time.perf_counter() - self.begin
        try:
            found = greedy(
                self.graph,
                time_limit=GREEDY_SHARE * self.time_limit,
                seed=seed,
                warm_start=warm_start,
                restarts=restarts,
            )
        except NoChoiceFound:
            return
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
        """The best bound on the cost in the original graph."""
        if self.reduced is None or self.standing is None:
            return float("-inf")
        return self.standing.bound + self.reduced.offset

    @property
    def proved(self) -> bool:
        """Whether the incumbent is proved optimal, or that there is none."""
        if self.standing is None:
            return False
        return (
            self.standing.infeasible or bool(self.choice) and closes(self.lower_bound, self.cost, self.graph.integral)
        )

    def result(self) -> Extraction:
        """The outcome. Raises Infeasible, NoChoiceFound."""
        if not self.choice:
            if self.standing is not None and self.standing.infeasible:
                raise Infeasible("a solver proved that no choice avoids all forbidden pairs")
            raise NoChoiceFound("no choice was found within the time limit")
        optimal = self.proved
        cost = check(self.original, self.choice)
        bound = float(cost) if optimal else min(self.grain * self.lower_bound, float(cost))
        trace = [(t, self.original.total(self.grain * c)) for t, c in self.trace]
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


def floor(graph: ChoiceGraph) -> float:
    """A lower bound at no cost: each root at its least price, any other class at that if negative."""
    least = [float(graph.cost[graph.class_start[c] : graph.class_start[c + 1]].min()) for c in range(graph.n_classes)]
    roots = set(graph.roots)
    return sum(x if c in roots else min(0.0, x) for c, x in enumerate(least))


def tainted(graph: ChoiceGraph) -> set[int]:
    """The classes of a normal-form graph that can reach a negative price."""
    return NormalForm.of(graph).tainted() if (graph.cost < 0).any() else set()


def successors(graph: ChoiceGraph) -> dict[int, set[int]]:
    """Class -> classes that its e-nodes read."""
    return {c: {d for n in graph.class_nodes(c) for d in graph.children(n)} for c in range(graph.n_classes)}


def surcharges(graph: ChoiceGraph) -> dict[tuple[int, int], dict[int, float]]:
    """(reader, class) -> its e-nodes that the reader pays for (inf: may not read)."""
    found: dict[tuple[int, int], dict[int, float]] = {}
    owner = graph.node_class.tolist()
    for (n, m), delta in graph.pair_costs.items():
        found.setdefault((n, owner[m]), {})[m] = delta
    for n, m in graph.forbidden_pairs:
        found.setdefault((n, owner[m]), {})[m] = float("inf")
    return found
