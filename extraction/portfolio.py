"""`portfolio`, the default: greedy, reduce, then exact solvers against each other and against time.

Small remains are solved here, by branch and bound. Otherwise solvers race in processes of their own. Core-guided
clingo proves most graphs, in one of two ways: with the order of components stated it runs through; with shrunk cores
until late, when disjoint cores take over. Beside them HiGHS runs for a first heat, then neighbourhood search.
Three processes share two cores, because no graph tells beforehand who will be first. Large graphs, of
which few are proved in time, have the first clingo and neighbourhood search from the start, one for
each of two cores. Graphs of more than 100,000 e-nodes are cut into parts where that is possible (`parts`). The race
ends before its time where its history says that no more is to be had (`history`). Never worse than `dag_greedy`, as
long as that ends within its share of the time limit.
"""

from __future__ import annotations

from . import branch, parts
from .asp import Asp
from .check import Choice
from .exact import ExactSearch
from .graph import ChoiceGraph
from .history import History
from .ilp import Ilp
from .lns import Lns
from .race import Entrant, State, race
from .result import Extraction
from .stopping import clock

ORDERED = Asp(("--opt-strategy=usc,oll,stratify", "--configuration=jumpy"), ordered=True)
"""For graphs that hang on few components, such as one value in many layouts; does not shrink cores."""

SHRUNK = Asp()
DISJOINT = Asp(("--opt-strategy=usc,oll,disjoint,stratify",))
"""Disjoint cores first: on some graphs the quicker prover."""

FIRST_HEAT, FIRST_HEAT_SECONDS = 0.25, 5.0
"""Part of the time, up to so many seconds, after which neighbourhood search takes over from HiGHS."""

SECOND_WAY = 0.6
"""Part of the time after which disjoint cores take over from shrunk ones."""

PATIENCE = 20.0
"""How many times its seconds a race may take on a machine that does other things, too."""

LARGE = 10_000
"""E-nodes after the reductions from which neighbourhood search gets all the time."""


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """The best that all of them find, of large graphs by `parts`. Raises Infeasible, NoChoiceFound."""
    if graph.n_nodes > parts.WHOLE:
        return parts.extract(graph, extract_whole, "portfolio", time_limit=time_limit, seed=seed, warm_start=warm_start)
    return extract_whole(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)


def extract_whole(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """As `extract`, in one part."""
    run = ExactSearch(graph, time_limit, "portfolio")
    with run.interruptible():
        state = run.start(seed, warm_start)
        if not run.proved:
            _branch(state, clock() + time_limit - run.worked)
        if not run.proved:
            assert run.reduced is not None
            history, before = History(time_limit, run.reduced.offset), run.worked
            entrants = schedule(state.graph.n_nodes, time_limit - before)

            def ends(cost: float, bound: float, worked: float, begun: int) -> bool:
                return history.ends(cost, bound, before + worked, begun)

            race(state, entrants, seed, ends, PATIENCE)
    return run.result()


def schedule(n_nodes: int, left: float) -> list[Entrant]:
    """Who runs when on a reduced graph of `n_nodes` e-nodes, for which so many seconds are left."""
    if n_nodes >= LARGE:
        return [Entrant(ORDERED, 0.0, left), Entrant(Lns(), 0.0, left)]
    heat = min(FIRST_HEAT_SECONDS, FIRST_HEAT * left)
    change = SECOND_WAY * left
    return [
        Entrant(ORDERED, 0.0, left),
        Entrant(SHRUNK, 0.0, change),
        Entrant(Ilp(), 0.0, heat),
        Entrant(Lns(), heat, left),
        Entrant(DISJOINT, change, left),
    ]


def _branch(state: State, deadline: float) -> None:
    """Solve small remains without a process."""
    if state.graph.n_nodes > branch.MAX_NODES:
        return
    try:
        choice = branch.solve(state.graph, state.cost, deadline)
    except branch.GiveUp:
        return
    if choice is not None:
        state.offer(choice)
    if state.choice is None:
        state.infeasible = True
    else:
        state.bound = state.cost
