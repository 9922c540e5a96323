"""`cpsat`: extraction as a constraint program, solved by CP-SAT of OR-tools (an optional extra).

The same rows as `ilp` over whole-number prices. Acyclicity by integer levels inside each strongly
connected component, each edge of a choice enforced by its own literal: no big constants.
"""

from __future__ import annotations

import time

from . import exact
from .check import Choice
from .components import cyclic_component_of
from .graph import ChoiceGraph
from .result import Extraction
from .scaling import Scale

LARGEST = 2**40
"""CP-SAT sums in 64 bits; this leaves room for millions of terms."""


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Greedy, reductions, then CP-SAT in a worker process. Raises Infeasible, NoChoiceFound,
    SolverUnavailable."""
    return exact.extract(graph, "cpsat", time_limit=time_limit, seed=seed, warm_start=warm_start)


def solve(graph: ChoiceGraph, report, *, deadline: float, seed: int, warm_start: Choice | None) -> str:
    """Runs in a worker process; `graph` is in normal form."""
    from ortools.sat.python import cp_model

    scale = Scale(graph, LARGEST)
    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(graph.n_nodes)]
    active = [model.new_bool_var("") for _ in range(graph.n_classes)]
    owner = graph.node_class.tolist()
    readers: dict[int, list] = {}
    reads = [sorted(set(graph.children(n))) for n in range(graph.n_nodes)]
    for c in range(graph.n_classes):
        model.add(sum(x[n] for n in graph.class_nodes(c)) == active[c])
    for r in graph.roots:
        model.add(active[r] == 1)
    for n in range(graph.n_nodes):
        for d in reads[n]:
            model.add_implication(x[n], active[d])
            readers.setdefault(d, []).append(x[n])
    for d in exact.tainted(graph) - set(graph.roots):
        model.add_bool_or([active[d].negated(), *readers.get(d, [])])

    component = cyclic_component_of(exact.successors(graph))
    size: dict[int, int] = {}
    for i in component.values():
        size[i] = size.get(i, 0) + 1
    level = {c: model.new_int_var(0, size[i] - 1, "") for c, i in component.items()}
    for n in range(graph.n_nodes):
        for d in reads[n]:
            p = owner[n]
            if d == p:
                model.add(x[n] == 0)
            elif p in level and component[p] == component.get(d):
                model.add(level[d] >= level[p] + 1).only_enforce_if(x[n])

    terms = [(x[n], scale.round(float(graph.cost[n]))) for n in range(graph.n_nodes)]
    for (n, m), surcharge in graph.pair_costs.items():
        both = model.new_bool_var("")
        model.add_bool_or([x[n].negated(), x[m].negated(), both])
        terms.append((both, scale.round(surcharge)))
    for n, m in graph.forbidden_pairs:
        model.add_bool_or([x[n].negated(), x[m].negated()])
    model.minimize(sum(w * v for v, w in terms if w))
    if warm_start is not None:
        chosen = set(warm_start.values())
        for n in range(graph.n_nodes):
            model.add_hint(x[n], n in chosen)

    class Heard(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            report.choice({owner[n]: n for n in range(graph.n_nodes) if self.boolean_value(x[n])})

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = max(0.0, deadline - time.perf_counter())
    solver.best_bound_callback = lambda value: report.bound(scale.bound(value))
    status = solver.solve(model, Heard())
    if status == cp_model.INFEASIBLE:
        return "infeasible"
    report.bound(scale.bound(solver.best_objective_bound))
    return "limit"
