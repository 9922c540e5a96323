"""`portfolio`, the default: runs greedy extraction, reductions and a proof by clingo, and then neighbourhood
search if the proof fails.

Core-guided clingo proves most graphs within a second, in one of two ways.
One way states in the program which components an active component needs; the other way shrinks cores.
If neither way finds a proof, neighbourhood search improves the choice.

That frees a ball of classes, keeps the rest, solves, and repeats.
A neighbourhood is a ChoiceGraph of its own (see `neighbourhood`).
It is reduced, and clingo solves what remains, up to a number of conflicts.
The work for that does not depend on the size of the whole graph.

The proof counts its work in conflicts and the neighbourhood search in neighbourhoods, not in seconds.
Therefore the result is the same on every machine and under any load.
The seconds of a limit stand for these counts on an idle machine, where some graphs take twice as many seconds.
A race of solvers in several processes was tried: if optima tied, the result depended on which solver ended first.
Over 21 choice graphs of the zoo the race also took longer than this clingo alone, except for two graphs, which it did
not prove.

The result is never worse than the result of `dag_greedy` if `dag_greedy` ends within its share of the time limit.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

from extraction.asp import Asp, Encoding
from extraction.check import Choice, check, reachable
from extraction.exact import ExactSearch
from extraction.graph import ChoiceGraph
from extraction.neighbourhood import Neighbours
from extraction.reduce import reduce
from extraction.result import Extraction
from extraction.state import State
from extraction.stopping import stop_asked

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

#: Options of clingo for a neighbourhood: core-guided search, the most expensive cores first.
NEAR_OPTIONS = ("--opt-strategy=usc,oll,stratify",)
#: Classes with a choice to make in the first neighbourhoods.
FIRST_SIZE = 20

#: Conflicts of clingo for one neighbourhood; the next ones are smaller if these were not enough.
NEAR_CONFLICTS = 10_000

#: Factor of the size after a neighbourhood that was solved.
GROW = 1.1

#: E-nodes of a neighbourhood up to which the next ones grow: half a second on an idle machine.
LARGE = 4_000

#: Factor of the size after a neighbourhood that was not solved.
SHRINK = 0.8

#: Part of the cost by which a choice must be better to be news.
#: Prices differ by more than that from the cycles of a compiled graph.
VISIBLE = 0.003

#: The search ends after so many neighbourhoods without news.
#: They are also half of all that were made, and a third of all that it may make.
QUIET = 8


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
        _search_nearby(state, neighbourhoods, deadline, seed)


def _proves(state: State, solver: Asp, deadline: float, seed: int) -> bool:
    """Improves `state` by clingo; returns whether it proved, up to the rounding of prices, that no more is possible."""
    ending = solver.solve_rounded(state.graph, state, deadline=deadline, seed=seed, warm_start=state.incumbent)
    return ending == "optimal"


def _search_nearby(state: State, most: int, deadline: float, seed: int) -> None:
    """Improves the incumbent of `state` in so many neighbourhoods, or fewer if it finds nothing; proves nothing."""
    graph = state.graph
    best = reachable(graph, state.incumbent)
    cost = known = check(graph, best)
    neighbours = Neighbours(graph, random.Random(seed))
    size, news = float(FIRST_SIZE), 0
    for done in range(most):
        if done - news >= max(QUIET, done / 2, most / 3):
            break
        if time.perf_counter() >= deadline or stop_asked():
            break
        part = neighbours.part(best, neighbours.ball(best, int(size)))
        share, solved = _solve(part.graph, check(part.graph, part.of(best)), deadline, seed)
        if share is not None:
            better = part.put_into(graph, best, share)
            better_cost = check(graph, better)
            if better_cost < cost:
                best, cost = better, better_cost
                state.offer(best)
            if known - cost >= VISIBLE * abs(known):
                known, news = cost, done
        if not solved:
            size = max(2.0, size * SHRINK)
        elif part.graph.n_nodes < LARGE:
            size = min(size * GROW, graph.n_classes)


def _solve(graph: ChoiceGraph, upper_bound: float, deadline: float, seed: int) -> tuple[Choice | None, bool]:
    """Returns the best choice found, and whether it is optimal."""
    reduced = reduce(graph, upper_bound)
    if reduced.solved:
        return reduced.lift({0: 0}), True
    report = _Last()
    ending = Encoding(reduced.graph, Asp(NEAR_OPTIONS, conflicts=NEAR_CONFLICTS), seed).solve(report, deadline)
    return None if report.last is None else reduced.lift(report.last), ending == "optimal"


class _Last:
    """A SolverReport that keeps the last choice; bounds of a neighbourhood mean nothing for the whole graph."""

    def __init__(self) -> None:
        self.last: Choice | None = None

    def choice(self, choice: dict[int, int]) -> None:
        self.last = choice

    def bound(self, value: float) -> None:
        pass
