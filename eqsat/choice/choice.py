"""From a saturated e-graph to a ChoiceGraph, and from a choice back to a TensorGraph.

choices = build(frozen, model)                     # candidates, their prices, what Vela fuses, what views cost
found = extract(choices.graph)                     # knows nothing of tensors
graph, origin = choices.tensor_graph(found.choice)

Vela's table of a whole graph corrects prices (`correct`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from cost_models.protocol import CostModel
from eqsat.choice.candidates import Candidate, add_part_costs, by_class, candidates, fusions, reachable, view_costs
from eqsat.choice.writer import GraphWriter, Written, with_needed_copies
from eqsat.egraph.encoding import Frozen
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Shape
from eqsat.tosa.flatbuffer import list_names
from eqsat.vela.defects import Copy, remedies
from eqsat.vela.patterns import ACTIVATIONS, TURNING
from eqsat.vela.table import Row
from extraction import ChoiceGraph


@dataclass(frozen=True, slots=True)
class Choices:
    """A ChoiceGraph over the e-classes that the outputs can reach, and then the classes of views and parts.

    classes: the e-class of each of the first positions.
    candidates: the candidate of each choice node of the e-classes.
    last, shapes: fields of `StorageCosts`.
    copies: the remedies without which Vela would compile graphs wrongly.
    """

    graph: ChoiceGraph
    frozen: Frozen
    classes: Sequence[int]
    candidates: Sequence[Candidate]
    last: Mapping[int, int]
    shapes: Mapping[int, Shape]
    copies: Sequence[Copy]

    def of_classes(self, choice: Mapping[int, int]) -> dict[int, int]:
        """Returns the part of a choice that concerns e-classes."""
        return {c: n for c, n in choice.items() if c < len(self.classes)}

    def tensor_graph(self, choice: Mapping[int, int]) -> Written:
        """Returns the TensorGraph of a choice with `copies`, and {node: choice node}."""
        writer = GraphWriter(self.frozen, self.classes, self.candidates, self.last_shapes(choice), choice)
        return with_needed_copies(*writer.write(), self.copies)

    def last_shapes(self, choice: Mapping[int, int]) -> dict[int, Shape]:
        """Returns {class: the last shape in which its value is read}, for classes with a chosen one."""
        return {c: self.shapes[choice[names]] for c, names in self.last.items() if names in choice}

    def with_views(self, copied: bool) -> ChoiceGraph:
        """Returns the choice graph with all views free or, if `copied`, with each a copy: bounds of what views cost.

        If `copied`, each operand of a CONCAT costs a copy, too, as if it had other readers.
        Greedy extraction sees the cost of shapes only one reader at a time, and misses choices that it finds here.
        """
        copies = {(h, self.shapes[h]): -d for (_, h), d in self.graph.pair_costs.items() if h in self.shapes}
        cost = self.graph.cost.copy()
        cost[len(self.candidates) :] = 0
        for n, candidate in enumerate(self.candidates):
            if copied and candidate.is_view:
                (operand,) = candidate.operands
                names = self.graph.class_nodes(self.last[operand]) if operand in self.last else ()
                shape = self.frozen.type_of(self.classes[operand]).shape
                cost[n] += max((copies.get((h, shape), 0.0) for h in names), default=0.0)
        pairs = {k: d for k, d in self.graph.pair_costs.items() if k[1] not in self.shapes}
        if copied:
            concats = {n for n, c in enumerate(self.candidates) if c.enode.op == "concat"}
            pairs = {k: d for k, d in pairs.items() if k[0] not in concats}
        return replace(self.graph, cost=cost, pair_costs=pairs)

    def with_storage(self, choice: Mapping[int, int]) -> dict[int, int]:
        """Returns a choice completed: each value is stored in the shape whose copy would cost most."""
        chosen, out = set(choice.values()), dict(choice)
        for n, h in sorted(self.graph.pair_costs, key=lambda pair: -self.graph.pair_costs[pair]):
            if h in self.shapes and n in chosen:
                out[int(self.graph.node_class[h])] = h
        return out

    def list_refused(self) -> list[str]:
        """Returns the source's operators of which Vela or a guard refuses every form: why nothing is extracted.

        For example "CONV2D of INT16 (1, 8, 8, 3) to INT48 (1, 8, 8, 16)"; each text occurs once.
        """
        source, frozen = self.frozen.source, self.frozen
        cheapest: dict[int, float] = {}
        for c in self.candidates:
            cheapest[c.enode.cls] = min(c.cycles, cheapest.get(c.enode.cls, math.inf))
        found: dict[str, None] = {}
        for n in source.live():
            node = source.nodes[n]
            if node.inputs and math.isinf(cheapest.get(frozen.handle[n], 0.0)):
                operand = source.nodes[node.inputs[0]]
                found[f"{node.op.upper()} of {operand.dtype} {operand.shape} to {node.dtype} {node.shape}"] = None
        return list(found)


def build(frozen: Frozen, model: CostModel) -> Choices:
    """Returns an e-graph's candidates with prices, as a choice graph. Raises GraphError without an output."""
    root_classes = list(dict.fromkeys(frozen.handle[o] for o in frozen.source.outputs))
    classes = reachable(frozen, root_classes)
    position = {c: i for i, c in enumerate(classes)}
    roots = [position[c] for c in root_classes]
    found = candidates(frozen, classes, model)
    storage = view_costs([frozen.type_of(c).shape for c in classes], found, roots)
    kept = set(roots)
    nodes = by_class(found, len(classes))
    add_part_costs(storage, found, nodes, kept, model)
    rows: list[list[tuple[float, list[int]]]] = []
    for cls, numbers in enumerate(nodes):
        rows.append([])
        for n in numbers:
            c = found[n]
            # readers pay: each for its own RESCALE, or for one copy of a part that they cannot read
            free = c.usable and (c.is_part or (c.is_widening and cls not in kept))
            rows[-1].append((0.0 if free else c.cycles, [*c.operands, *storage.reads.get(n, ())]))
    graph = ChoiceGraph.build(
        rows + storage.rows,
        roots + storage.roots,
        pair_costs=fusions(found, nodes, model) | storage.pairs,
    )
    copies = remedies(Copy, model.target.family)
    return Choices(graph, frozen, classes, found, storage.last, storage.shapes, copies)


#: A row of Vela's table corrects a price if it exceeds the price by more than this share of it,
_EXCESS = 0.5
#: and by so many cycles besides.
_EXCESS_CYCLES = 1000


def correct(
    choices: Choices, graph: TensorGraph, origin: Mapping[int, int], rows: Sequence[Row], reads_too_early: bool = False
) -> tuple[Choices, bool]:
    """Returns choices with prices corrected by rows of Vela's table of a graph, and whether the next choice may differ.

    A unit whose row costs far more than the unit and everything fused into it gets the excess.
    Fusions that did not happen are dropped, such as with a producer that has other readers.
    origin: {node: choice node}.
    reads_too_early: whether an operator begins too early behind a TRANSPOSE or REVERSE with a fused activation.
    Then no activation is priced as fused into one of these, so that activations are chosen before them.
    """
    cycles, readers = _cycles(graph, rows), graph.readers()
    cost, pairs, candidates = choices.graph.cost.copy(), dict(choices.graph.pair_costs), list(choices.candidates)
    copies = {m: delta for (n, m), delta in pairs.items() if n >= len(candidates) > m}  # of parts
    raised, missed = False, 0.0
    for n in (n for n in origin if n in cycles):
        group = _group(n, graph, origin, cycles, readers)
        priced = sum(cost[c] for c in group) + sum(pairs.get(p, 0.0) for p in permutations(group, 2))
        priced += copies.get(origin[n], 0.0)
        if candidates[origin[n]].is_widening:  # its readers pay for it
            priced += sum(pairs.get((origin[r], origin[n]), 0.0) for r in readers[n] if r in origin)
        excess = cycles[n] - priced
        if excess > _EXCESS * priced + _EXCESS_CYCLES:
            cost[origin[n]] += excess
            c = candidates[origin[n]]
            candidates[origin[n]] = replace(c, price=replace(c.price, cycles=c.cycles + excess))
            raised = True
        for m in graph.nodes[n].inputs:
            bonus = -pairs.get((origin[n], origin.get(m, -1)), 0.0)
            if len(readers[m]) > 1 and cycles[n] > _EXCESS * bonus > 0:
                del pairs[origin[n], origin[m]]
                missed += bonus
    for n, m in [pair for pair in pairs if reads_too_early and _is_activated_turn(candidates, *pair)]:
        del pairs[n, m]
        raised = True
    new = replace(choices, graph=replace(choices.graph, cost=cost, pair_costs=pairs), candidates=tuple(candidates))
    return new, raised or missed > _EXCESS_CYCLES


def _is_activated_turn(candidates: Sequence[Candidate], reader: int, read: int) -> bool:
    """Whether a pair of choice nodes is a CLAMP or TABLE that reads a TRANSPOSE or REVERSE."""
    if max(reader, read) >= len(candidates):
        return False
    return candidates[reader].priced.op in ACTIVATIONS and candidates[read].priced.op in TURNING


def _cycles(graph: TensorGraph, rows: Sequence[Row]) -> dict[int, int]:
    """Returns {node: cycles}, summed over rows named after a tensor of the graph."""
    numbers = {name: n for n, name in list_names(graph).items()}
    out: dict[int, int] = {}
    for row in rows:
        if (n := numbers.get(row.name)) is not None:
            out[n] = out.get(n, 0) + row.priced
    return out


def _group(
    n: int,
    graph: TensorGraph,
    origin: Mapping[int, int],
    cycles: Mapping[int, int],
    readers: Mapping[int, Sequence[int]],
) -> set[int]:
    """Returns the choice nodes that a node's row covers: also operands without a row that nothing else reads."""
    group, stack = {origin[n]}, list(graph.nodes[n].inputs)
    while stack:
        m = stack.pop()
        if m in origin and m not in cycles and len(readers[m]) == 1:
            group.add(origin[m])
            stack.extend(graph.nodes[m].inputs)
    return group
