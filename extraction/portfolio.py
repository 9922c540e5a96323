"""`portfolio`, the default: runs greedy extraction, reductions and a proof by clingo, and then neighbourhood
search if the proof fails.

Core-guided clingo proves most graphs within a second, in one of two ways.
One way states in the program which components an active component needs; the other way shrinks cores.
If neither way finds a proof, neighbourhood search frees a ball of classes, keeps the rest, solves, and repeats.
A neighbourhood is reduced and solved by clingo, with work that does not depend on the size of the whole graph.

The proof counts its work in conflicts and the neighbourhood search in neighbourhoods, not in seconds.
Therefore the result is the same on every machine and under any load.
The seconds of a limit stand for these counts on an idle machine, where some graphs take twice as many seconds.
A race of solvers in several processes would choose among equal optima by which solver ends first; it took longer than
clingo alone on 19 of 21 choice graphs of the zoo.

The result is never worse than the result of `dag_greedy` if `dag_greedy` ends within its share of the time limit.
"""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, replace

from extraction.asp import Asp, Encoding
from extraction.check import Choice, check, reachable
from extraction.exact import ExactSearch, State
from extraction.graph import ChoiceGraph
from extraction.protocol import Extraction
from extraction.reductions import reduce
from extraction.stopping import stop_asked


@dataclass(frozen=True)
class Subproblem:
    """A neighbourhood of a choice as a small ChoiceGraph: some classes are free, the rest of the choice stays.

    The part that stays is paid for already, but pairs across the border change the prices of e-nodes inside.
    Against cycles, a placeholder of cost 0 stands for a class that stays and reads the free classes that it depends on.
    Classes that are active only for free ones may become inactive, so they are inside, each with its chosen e-node.

    nodes: the e-nodes of `graph` in the whole graph, -1 for placeholders
    """

    graph: ChoiceGraph
    nodes: tuple[int, ...]

    def of(self, choice: Choice) -> dict[int, int]:
        """Returns the neighbourhood's share of a choice of the whole graph."""
        chosen = set(choice.values())
        return {int(self.graph.node_class[i]): i for i, n in enumerate(self.nodes) if n < 0 or n in chosen}

    def put_into(self, whole: ChoiceGraph, choice: Choice, share: Choice) -> dict[int, int]:
        """Returns `choice` with its share in the neighbourhood replaced."""
        new = [self.nodes[i] for i in share.values() if self.nodes[i] >= 0]
        return reachable(whole, {**choice, **{int(whole.node_class[n]): n for n in new}})


@dataclass(frozen=True)
class _Cut:
    """A choice cut into the classes that stay and the free ones.

    stays   : classes that are active whatever is chosen for the free ones
    inside  : class -> the e-nodes to choose from: all of a free class, the chosen one of a class active only for these
    required: free classes that are roots, or that a class that stays reads
    depends : class that stays -> the free classes on which it depends
    """

    stays: set[int]
    inside: dict[int, list[int]]
    required: set[int]
    depends: dict[int, set[int]]


class Neighbours:
    """Neighbourhoods in a graph in normal form (see `reduce`)."""

    def __init__(self, graph: ChoiceGraph, rng: random.Random):
        self.graph, self.rng = graph, rng
        self.owner = graph.node_class.tolist()
        self.adjacent: list[set[int]] = [set() for _ in range(graph.n_classes)]
        for n in range(graph.n_nodes):
            for d in graph.children(n):
                self.adjacent[self.owner[n]].add(d)
                self.adjacent[d].add(self.owner[n])
        self.open = [len(graph.class_nodes(c)) > 1 for c in range(graph.n_classes)]
        self.surcharges: dict[int, dict[int, float]] = {}  # reader -> read -> surcharge
        for (n, _), terms in graph.pair_terms().items():
            self.surcharges.setdefault(n, {}).update(terms)

    def ball(self, choice: Choice, size: int) -> set[int]:
        """Returns classes around a random active one.

        size: active classes among them with more than one e-node.
        """
        start = self.rng.choice([c for c in choice if self.open[c]] or list(choice))
        ball, queue, count = {start}, deque([start]), 1
        while queue and count < size:
            near = sorted(self.adjacent[queue.popleft()] - ball)
            self.rng.shuffle(near)
            for d in near:
                ball.add(d)
                queue.append(d)
                count += d in choice and self.open[d]
                if count >= size:
                    break
        return ball

    def part(self, choice: Choice, free: set[int]) -> Subproblem:
        """Returns the neighbourhood of `choice` in which the classes `free` are chosen anew.

        choice: lists readers before the classes that they read.
        """
        cut = self._cut_free(choice, free)
        price = self._prices(choice, cut)
        readable = cut.inside.keys() | cut.stays
        usable = {
            c: [n for n in nodes if readable.issuperset(self.graph.children(n))] for c, nodes in cut.inside.items()
        }
        # a class gets a placeholder if it stays, depends on free classes and is read inside
        border = sorted({d for n in price for d in self.graph.children(n) if cut.depends.get(d)})
        number = {c: i for i, c in enumerate([*usable, *border])}
        reads = {n: sorted({number[d] for d in self.graph.children(n) if d in number}) for n in price}
        rows = [[(price[n], reads[n]) for n in nodes] for nodes in usable.values()]
        rows += [[(0.0, sorted(number[c] for c in cut.depends[d]))] for d in border]
        nodes = [n for kept in usable.values() for n in kept]
        new = {n: i for i, n in enumerate(nodes)}
        pairs = {(new[n], new[m]): delta for n in new for m, delta in self.surcharges.get(n, {}).items() if m in new}
        graph = ChoiceGraph.build(rows, [number[c] for c in sorted(cut.required)], pairs)
        return Subproblem(graph, (*nodes, *(-1 for _ in border)))

    def _cut_free(self, choice: Choice, free: set[int]) -> _Cut:
        stays, required, stack = set(), set(), list(self.graph.roots)
        while stack:
            c = stack.pop()
            if c in free:
                required.add(c)
            elif c not in stays:
                stays.add(c)
                stack.extend(self.graph.children(choice[c]))
        inside = {c: list(self.graph.class_nodes(c)) for c in sorted(free)}
        inside |= {c: [choice[c]] for c in choice if c not in free and c not in stays}
        depends: dict[int, set[int]] = {}
        for c in reversed(list(choice)):
            if c in stays:
                reads = self.graph.children(choice[c])
                depends[c] = set().union(*({d} if d in free else depends[d] for d in reads))
        return _Cut(stays, inside, required, depends)

    def _prices(self, choice: Choice, cut: _Cut) -> dict[int, float]:
        """Returns the prices of the e-nodes inside, with their surcharges across the border."""
        price = {n: float(self.graph.cost[n]) for nodes in cut.inside.values() for n in nodes}
        chosen = {choice[c] for c in cut.stays}
        for c in cut.stays:
            for m, delta in self.surcharges.get(choice[c], {}).items():
                if m in price:
                    price[m] += delta
        for n in price:
            price[n] += sum(delta for m, delta in self.surcharges.get(n, {}).items() if m in chosen)
        return price


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

#: The search ends after so many neighbourhoods without news, if these are also half of all that were made, and a third
#: of all that it may make.
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
