"""Cycles by operator from Vela's rows, and the cost of the choice without an operator."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.choice.choice import Choices
from eqsat.explain.words import enode_text, type_text
from eqsat.search.run import Run
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.table import Row
from extraction import (
    ChoiceGraph,
    Extraction,
    ExtractionError,
    Infeasible,
    InvalidExtraction,
    check,
    extract,
    reachable,
)
from extraction.derivation import derivable

#: E-nodes of a choice graph up to which costs without an operator are extracted by `portfolio`.
#: Of `examples/upscale.tosa` on U85, greedy extraction tells up to 8,391 cycles too many.
_THOROUGH = 5_000
#: Seconds of such an extraction.
_SECONDS = 1.0

#: Names of Vela's operators -> names of operators here, if they differ by more than case.
_KINDS = {
    "conv2d": ("conv2d",),
    "fullyconnected": ("conv2d", "matmul"),
    "depthwiseconv2d": ("depthwise_conv2d",),
    "transposeconv2d": ("transpose_conv2d",),
    "maxpool": ("max_pool2d",),
    "avgpool": ("avg_pool2d",),
}


def by_node(graph: TensorGraph, rows: Sequence[Row], names: Mapping[str, int]) -> dict[int, int]:
    """Returns {node: cycles} from a table of Vela.

    names: {tensor name: node}.
    A row has the name of the last of the operators that run as one.
    Its cycles belong to the operator among them of the row's kind.
    Operators that Vela has added have other names, and come before
    the operator that they belong to.
    """
    named = {names[row.name] for row in rows if row.name in names}
    out: dict[int, int] = {}
    waiting = 0
    for row in rows:
        waiting += row.cycles
        if row.name in names:
            node = _main(graph, names[row.name], row.operator.lower(), named, out)
            out[node] = out.get(node, 0) + waiting
            waiting = 0
    return out


def _main(graph: TensorGraph, last: int, kind: str, named: Collection[int], paid: Collection[int]) -> int:
    """Returns the operator of a kind at `last` or before it, on tensors that Vela does not name.

    If there are several, it is one without a row so far.
    For example, the operands of a concat write into it, each with a row of its name.
    """
    kinds, found, stack = _KINDS.get(kind, (kind, kind.replace("reduce", "reduce_"))), [], [last]
    while stack:
        node = stack.pop()
        if graph.nodes[node].op in kinds:
            found.append(node)
        else:
            stack += [
                i
                for i in reversed(graph.nodes[node].inputs)
                if i not in named and graph.nodes[i].op not in ("input", "const")
            ]
    return next((n for n in found if n not in paid), found[0] if found else last)


def by_choice(rows: Sequence[Row], choices: Choices, choice: Mapping[int, int]) -> dict[int, int]:
    """Returns {choice node: cycles} of a choice that was compiled as a whole."""
    graph, origin = choices.tensor_graph(choice)
    names = {name: n for n, name in written_names(graph).items()}
    out: dict[int, int] = {}
    for node, cycles in by_node(graph, rows, names).items():
        if node in origin:
            out[origin[node]] = out.get(origin[node], 0) + cycles
    return out


@dataclass(frozen=True, slots=True)
class Removal:
    """The cost of the graph without one operator.

    extra: additional cycles by the run's prices, None if the graph needs the operator.
    instead: the operators that replace it.
    """

    extra: float | None
    instead: tuple[str, ...] = ()


def removal(run: Run, cls: int) -> Removal:
    """Returns the cheapest choice found without the e-node that the run's choice has for `cls`."""
    choices, choice = run.choices, run.choice
    enode = choices.candidates[choice[cls]].enode
    without = [n for n in choices.graph.class_nodes(cls) if choices.candidates[n].enode is enode]
    if not derivable(choices.graph, without):
        return Removal(None)
    try:
        found = _cheapest(replace(choices.graph, forbidden=choices.graph.forbidden | set(without)))
    except Infeasible:
        return Removal(None)
    except ExtractionError as e:
        return Removal(None, (str(e),))
    changed = [n for c, n in choices.of_classes(found.choice).items() if choice.get(c) != n]
    new = [n for n in changed if choices.candidates[n].enode.op != "const"]
    new.sort(key=lambda n: -choices.candidates[n].cycles)
    enodes = [choices.candidates[n].enode for n in new]
    instead = tuple(f"{enode_text(e)} {type_text(choices.frozen.types[e.cls])}" for e in enodes)
    return Removal(max(0.0, found.cost - run.cost()), instead)


def _cheapest(graph: ChoiceGraph) -> Extraction:
    """Returns the cheapest choice found in the time for one line of an explanation.

    Raises ExtractionError.
    """
    return extract(graph, "portfolio" if graph.n_nodes <= _THOROUGH else "dag_greedy", time_limit=_SECONDS)


def path(run: Run, n: int) -> float | None:
    """Returns the additional cycles of the whole graph if choice node `n` computes its class.

    The estimate is the better of an extraction and a change of the present choice.
    Returns None if that is impossible, because `n` is forbidden or depends on itself.
    """
    graph, choice = run.choices.graph, run.choice
    cls = int(graph.node_class[n])
    if choice.get(cls) == n:
        return 0.0
    others = {k for k in graph.class_nodes(cls) if k != n}
    forced = replace(graph, roots=(*graph.roots, cls), forbidden=graph.forbidden | others)
    try:
        found = _cheapest(forced)
    except ExtractionError:
        return None
    costs = [found.cost]
    with contextlib.suppress(InvalidExtraction):  # the run's choice may depend on itself with `n`
        costs.append(check(forced, reachable(forced, {**found.choice, **choice, cls: n})))
    return max(0.0, min(costs) - run.cost())
