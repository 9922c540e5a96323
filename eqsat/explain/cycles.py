"""Who pays what: Vela's rows by operator, and what the choice would cost without one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.choice.choice import Choices
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.table import Row
from extraction import ExtractionError, Infeasible, InvalidExtraction, check, extract, reachable
from extraction.derivation import derivable

#: Vela's operators -> what they are called here, where the names differ by more than capitals.
_KINDS = {
    "conv2d": ("conv2d",),
    "fullyconnected": ("conv2d", "matmul"),
    "depthwiseconv2d": ("depthwise_conv2d",),
    "transposeconv2d": ("transpose_conv2d",),
    "maxpool": ("max_pool2d",),
    "avgpool": ("avg_pool2d",),
}


def by_node(graph: TensorGraph, rows: Sequence[Row], names: Mapping[str, int]) -> dict[int, int]:
    """{node: cycles} from a table of Vela, given the nodes by tensor name.

    A row is named after the last operator of what runs as one; its cycles go to the operator of the row's kind in
    there. Operators that Vela made up have names of their own and come before the one that they belong to.
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
    """The operator of a kind at `last` or before it, on tensors that Vela does not name; of several one that has no row
    yet (the operands of a concat write into it, each with a row of its name)."""
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
    """{choice node: cycles} of a choice that was compiled whole."""
    graph, origin = choices.tensor_graph(choice)
    names = {name: n for n, name in written_names(graph).items()}
    out: dict[int, int] = {}
    for node, cycles in by_node(graph, rows, names).items():
        if node in origin:
            out[origin[node]] = out.get(origin[node], 0) + cycles
    return out


@dataclass(frozen=True, slots=True)
class Removal:
    """What the graph would cost without one operator: `extra` cycles by the run's prices (None: it cannot do without),
    and by which operators it would be computed then."""

    extra: float | None
    instead: tuple[str, ...] = ()


def removal(choices: Choices, choice: Mapping[int, int], cost: float, cls: int, text: Callable[[int], str]) -> Removal:
    """The cheapest choice found without the e-node that `choice` takes for `cls`; `text` names a choice node."""
    enode = choices.candidates[choice[cls]].enode
    without = [n for n in choices.graph.class_nodes(cls) if choices.candidates[n].enode is enode]
    if not derivable(choices.graph, without):
        return Removal(None)
    try:
        found = extract(replace(choices.graph, forbidden=choices.graph.forbidden | set(without)), "dag_greedy")
    except Infeasible:
        return Removal(None)
    except ExtractionError as e:
        return Removal(None, (str(e),))
    new = [
        n
        for c, n in choices.of_classes(found.choice).items()
        if choice.get(c) != n and choices.candidates[n].enode.op != "const"
    ]
    return Removal(
        max(0.0, found.cost - cost), tuple(text(n) for n in sorted(new, key=lambda n: -choices.candidates[n].cycles))
    )


def path(choices: Choices, choice: Mapping[int, int], cost: float, n: int) -> float | None:
    """Cycles that the whole graph would cost more if its class were computed by the choice node `n`, as far as greedy
    extraction and the choice at hand tell; None where it cannot be, because it is forbidden or needs what needs it."""
    graph, cls = choices.graph, int(choices.graph.node_class[n])
    if choice.get(cls) == n:
        return 0.0
    others = {k for k in graph.class_nodes(cls) if k != n}
    forced = replace(graph, roots=(*graph.roots, cls), forbidden=graph.forbidden | others)
    try:
        found = extract(forced, "dag_greedy")
    except ExtractionError:
        return None
    costs = [found.cost]
    with contextlib.suppress(InvalidExtraction):  # what the run chose may read what it reads
        costs.append(check(forced, reachable(forced, {**found.choice, **choice, cls: n})))
    return max(0.0, min(costs) - cost)
