"""`portfolio`, the default: runs greedy extraction, reductions and a proof by clingo, and then neighbourhood
search if the proof fails.

Core-guided clingo proves most graphs within a second, in one of two ways.
One way states in the program which components an active component needs; the other way shrinks cores.
If neither way finds a proof, neighbourhood search improves the choice.

The proof counts its work in conflicts and the neighbourhood search in neighbourhoods, not in seconds.
Therefore the result is the same on every machine and under any load.
The seconds of a limit stand for these counts on an idle machine, where some graphs take twice as many seconds.
A race of solvers in several processes was tried: if optima tied, the result depended on which solver ended first.
Over 21 choice graphs of the zoo the race also took longer than this clingo alone, except for two graphs, which it did
not prove.

The result is never worse than the result of `dag_greedy` if `dag_greedy` ends within its share of the time limit.
"""

from __future__ import annotations

import time
from dataclasses import replace

from .asp import Asp
from .check import Choice
from .exact import ExactSearch
from .graph import ChoiceGraph
from .lns import Lns
from .result import Extraction
from .state import State

#: For graphs that few components decide, such as one value in many layouts; shrinks no cores.
#: Sums of cores are cut into parts, whose size clingo chooses (k,0).
#: Without that a conflict of GhostNet on U65 takes 0.2 ms at first and 8 ms after 22,000.
ORDERED = Asp(("--opt-strategy=usc,k,0,stratify", "--configuration=jumpy"), ordered=True)

#: Part of the time limit for the proof; the rest is for neighbourhood search.
PROOF_SHARE = 0.6

#: Conflicts after which the other way is tried; after as many conflicts, the first way is tried again.
#: Of 43 choice graphs of networks on U65 and U85 the first way proves 27 with fewer, and one with more.
#: The other way proves two of the rest with fewer.
TURN = 2_500

#: Gap after the first turn above which no other one follows, if all turns have less than four times its conflicts: as
#: the core-guided search goes on, its bound rises ever faster up to the cost.
#: Swin's gap is 9.4% then, and 7.2% after 7 more seconds without a better choice; ConvNeXt's 0.8%; Conformer is proved.
#: ResNeXt's on U85 is 4.2%, and as much after 7 more seconds.
HOPELESS = 0.03

#: Conflicts of clingo per second, at most.
#: On a reduced graph of over 4,500 e-nodes they are LARGE_CONFLICTS / e-nodes ** 2.
#: Measured on choice graphs of the zoo and on extraction-gym.
CONFLICTS = 10_000.0
LARGE_CONFLICTS = 2e11

#: E-nodes of a reduced graph up to which a proof is tried: of larger ones none was proved within a minute.
PROVABLE = 20_000

#: Neighbourhoods per second.
NEIGHBOURHOODS = 2.5

#: How many times its limit an extraction may take in wall time, on a busy machine.
PATIENCE = 20.0


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Returns the best choice that is found.

    time_limit: seconds on an idle machine; it decides how many conflicts and neighbourhoods are tried.
    Raises Infeasible, and ImportError if clingo is not installed and the graph needs it.
    """
    run = ExactSearch(graph, time_limit, "portfolio")
    with run.interruptible():
        state = run.start(seed, warm_start)
        if not run.proved:
            _search(state, time_limit, seed)
    return run.result()


def _search(state: State, time_limit: float, seed: int) -> None:
    """Proves or improves the incumbent of `state`, first by clingo and then by neighbourhood search."""
    deadline = time.perf_counter() + PATIENCE * time_limit
    n_nodes, left = state.graph.n_nodes, time_limit
    most = int(PROOF_SHARE * time_limit * min(CONFLICTS, LARGE_CONFLICTS / n_nodes**2))
    if n_nodes <= PROVABLE:
        left -= PROOF_SHARE * time_limit
        first = min(most, TURN)
        second = min(most - first, TURN)
        for conflicts, way in ((first, ORDERED), (second, Asp()), (most - first - second, ORDERED)):
            if conflicts and _proves(state, replace(way, conflicts=conflicts), deadline, seed):
                return
            if most < 4 * TURN and state.cost - state.least > HOPELESS * abs(state.cost):
                break
    neighbourhoods = int(left * NEIGHBOURHOODS)
    if neighbourhoods:
        search = Lns(neighbourhoods)
        search.solve(state.graph, state, deadline=deadline, seed=seed, warm_start=state.incumbent)


def _proves(state: State, solver: Asp, deadline: float, seed: int) -> bool:
    """Improves `state` by clingo; returns whether it proved, up to the rounding of prices, that no more is possible."""
    ending = solver.rounded(state.graph, state, deadline=deadline, seed=seed, warm_start=state.incumbent)
    return ending == "optimal"
