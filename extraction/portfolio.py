"""`portfolio`, the default: greedy, reduce, then exact solvers against each other and against time.

Small graphs that remain are solved here, by branch and bound.
For larger ones solvers race in processes of their own.
Core-guided clingo proves most graphs, in one of two ways.
One states the order of components and runs to the end.
The other shrinks cores; late in the race one with disjoint cores takes over.
Beside them HiGHS runs first, then neighbourhood search.
Three solvers share two cores: which is fastest cannot be predicted from the graph.

Few large graphs are proved in time.
They have the first clingo and neighbourhood search from the start, one for each of two cores.
Graphs of more than 100,000 e-nodes are cut into parts if that is possible (`parts`).

The race ends early if its history predicts no more progress (`history`).
The result is never worse than that of `dag_greedy` if that ends within its share of the time limit.
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

#: For graphs that few components decide, such as one value in many layouts; shrinks no cores.
ORDERED = Asp(("--opt-strategy=usc,oll,stratify", "--configuration=jumpy"), ordered=True)

#: Shrinks cores.
SHRUNK = Asp()
#: Finds disjoint cores first: on some graphs it proves faster.
DISJOINT = Asp(("--opt-strategy=usc,oll,disjoint,stratify",))

#: Part of the time after which neighbourhood search takes over from HiGHS.
FIRST_HEAT = 0.25

#: Seconds after which neighbourhood search takes over from HiGHS, at most.
FIRST_HEAT_SECONDS = 5.0

#: Part of the time after which disjoint cores take over from shrunk ones.
SECOND_WAY = 0.6

#: How many times its working seconds a race may take on a busy machine.
PATIENCE = 20.0

#: E-nodes after the reductions from which neighbourhood search runs from the start.
LARGE = 10_000


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Returns the best choice that all of them find, for large graphs by `parts`.

    Raises Infeasible, NoChoiceFound.
    """
    if graph.n_nodes > parts.WHOLE:
        return parts.extract(graph, extract_whole, "portfolio", time_limit=time_limit, seed=seed, warm_start=warm_start)
    return extract_whole(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)


def extract_whole(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Extracts like `extract`, but never by parts."""
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
    """Returns which solver runs when on a reduced graph of `n_nodes` e-nodes.

    left: seconds that are left for the race.
    """
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
    """Solves a small graph without a process."""
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
