"""From a saturated e-graph to a ChoiceGraph and back.

Every e-node becomes a candidate with a price in cycles; pairwise terms say what Vela fuses. A Move is one candidate
whose TOSA steps the cost model settles, and where native TRANSPOSEs fuse a second one if a single one does it, because that can fuse
into its producer. A widening RESCALE stands once for every reader: its price is a pairwise term of each reader, and the
candidate's own only where the outside world reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cost_models.protocol import CostModel, Steps, Unit
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.search.signature import with_inputs_read
from eqsat.search.storage import storage, viewed_first
from eqsat.target import Family
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, GraphError, attrs_of
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.guards import misplaced
from extraction import ChoiceGraph, Extraction, check

#: A row of Vela's table that exceeds its price by this share and this many cycles corrects the price.
_EXCESS, _EXCESS_CYCLES = 0.5, 1000


def is_widening(op: str, attrs: Attrs) -> bool:
    """A RESCALE to INT32 is materialised once per reader: it fuses into each, and sharing one gives wrong results on
    U55 (pytorch/executorch issue 21415)."""
    return op == "rescale" and DType.of(dict(attrs)["dtype"]).is_accumulator


@dataclass(slots=True)
class Choices:
    """A ChoiceGraph over the classes that the outputs can reach, and behind them those of `storage.py`; per choice node of the former
    its e-node, operand classes, TOSA steps and cycles standing alone (inf where it cannot stand). last, shapes: see `Storage`."""

    graph: ChoiceGraph
    frozen: Frozen
    classes: list[int]
    enodes: list[ENode]
    operands: list[list[int]]
    steps: list[Steps]
    cycles: list[float]
    last: Mapping[int, int]
    shapes: Mapping[int, tuple[int, ...]]

    def of_classes(self, choice: Mapping[int, int]) -> dict[int, int]:
        """The part of a choice that is about e-classes."""
        return {c: n for c, n in choice.items() if c < len(self.classes)}

    def relaxed(self, copied: bool) -> ChoiceGraph:
        """The same with all views free or, if `copied`, with each of them a copy. Greedy extraction sees what shapes cost only one reader at
        a time, and finds in these what it misses in `graph`; `settled` makes their choices its own."""
        copies = {(h, self.shapes[h]): -d for (_, h), d in self.graph.pair_costs.items() if h in self.shapes}
        pairs = {k: d for k, d in self.graph.pair_costs.items() if k[1] not in self.shapes}
        cost = self.graph.cost.copy()
        cost[len(self.enodes) :] = 0
        for n, (cls, *_) in (
            (n, ops) for n, ops in enumerate(self.operands) if copied and [op for op, _ in self.steps[n]] == ["reshape"]
        ):
            shape = self.frozen.types[self.classes[cls]].shape
            cost[n] += max((copies.get((h, shape), 0.0) for h in self._names(cls)), default=0.0)
        return replace(self.graph, cost=cost, pair_costs=pairs)

    def _names(self, cls: int) -> range:
        return self.graph.class_nodes(self.last[cls]) if cls in self.last else range(0)

    def settled(self, choice: Mapping[int, int]) -> Extraction:
        """A choice that names as last shape the one that would cost most."""
        chosen, out = set(choice.values()), dict(choice)
        for n, h in sorted(self.graph.pair_costs, key=lambda pair: -self.graph.pair_costs[pair]):
            if h in self.shapes and n in chosen:
                out[int(self.graph.node_class[h])] = h
        return Extraction(out, check(self.graph, out), -math.inf, "feasible", [], 0.0, "dag_greedy")

    def corrected(self, graph: TensorGraph, origin: Mapping[int, int], rows: Sequence[Mapping]) -> bool:
        """Raises the price of units that cost far more in the whole graph (rows of Vela's table, by tensor name) than they and what is
        fused into them were priced at, and drops fusions that did not come about, as with a producer that others read too; true if the
        next extraction may differ for it."""
        numbers = {name: n for n, name in written_names(graph).items()}
        named: dict[int, int] = {}
        for row in rows:
            if (number := numbers.get(row["name"])) is not None:
                named[number] = named.get(number, 0) + int(row["op_cycles"])
        readers = graph.readers()
        cost, pairs = self.graph.cost.copy(), dict(self.graph.pair_costs)
        raised, missed = False, 0.0
        for n in origin:
            cycles = named.get(n)
            if cycles is None:
                continue
            group, stack = {origin[n]}, list(graph.nodes[n].inputs)
            while stack:  # what has no row of its own and only this reader is part of the row
                m = stack.pop()
                if m in origin and m not in named and len(readers[m]) == 1:
                    group.add(origin[m])
                    stack.extend(graph.nodes[m].inputs)
            excess = cycles - sum(self.cycles[g] for g in group)
            if excess > _EXCESS * (cycles - excess) + _EXCESS_CYCLES:
                cost[origin[n]] += excess
                self.cycles[origin[n]] += excess
                raised = True
            for m in graph.nodes[n].inputs:
                bonus = -pairs.get((origin[n], origin.get(m, -1)), 0.0)
                if len(readers[m]) > 1 and cycles > _EXCESS * bonus > 0:
                    del pairs[origin[n], origin[m]]
                    missed += bonus
        self.graph = replace(self.graph, cost=cost, pair_costs=pairs)
        return raised or missed > _EXCESS_CYCLES

    def tensor_graph(self, choice: Mapping[int, int]) -> tuple[TensorGraph, dict[int, int]]:
        """The TensorGraph of a choice, with the source's inputs, all of them read, and outputs in order; and {node: choice node}."""
        return with_inputs_read(*self.written(choice), self.frozen.source)

    def written(self, choice: Mapping[int, int]) -> tuple[TensorGraph, dict[int, int]]:
        """The same, in which an input that nothing depends on is not read."""
        source, out = self.frozen.source, TensorGraph(output_names=list(self.frozen.source.output_names))
        position = {c: i for i, c in enumerate(self.classes)}
        made = {
            position[self.frozen.handle[i]]: out.add_input(
                source.nodes[i].attr("name"), source.nodes[i].shape, source.nodes[i].dtype
            )
            for i in source.inputs
        }
        origin: dict[int, int] = {}
        views: dict[tuple[int, tuple[int, ...]], int] = {}  # (class of a value, shape that it is read in): node

        def viewed(cls: int) -> int:
            """The class whose value `cls` is a view of."""
            while len(self.steps[choice[cls]]) == 1 and self.steps[choice[cls]][0][0] == "reshape":
                cls = self.operands[choice[cls]][0]
            return cls

        def shape_of(cls: int) -> tuple[int, ...]:
            return self.frozen.types[self.classes[cls]].shape

        def reads(n: int) -> list[tuple[int, tuple[int, ...], int]]:
            """Per operand the class of its value, the shape that it is read in, and the choice node that stands for the view."""
            first = viewed_first(self.steps[n])
            return [
                (viewed(c), first or shape_of(c), n if first or viewed(c) == c else choice[c]) for c in self.operands[n]
            ]

        def emit(cls: int) -> int:
            n = choice[cls]
            e = self.enodes[n]
            if e.op == "const":
                t = self.frozen.types[e.cls]
                return out.add_const(dict(e.attrs)["value"].data, t.dtype, t.shape)
            x = [read(value, shape, view) for value, shape, view in reads(n)]
            for op, attrs in self.steps[n][1:] if viewed_first(self.steps[n]) else self.steps[n]:
                x = [out.add_with(op, x, attrs)]
                origin[x[0]] = n
            return x[0]

        def read(cls: int, shape: tuple[int, ...], view: int) -> int:
            """The node of a value in a shape; its views are made from each shape to the next."""
            e = self.enodes[choice[cls]]
            if is_widening(e.op, e.attrs):
                return reshaped(emit(cls), shape, view)
            if (cls, shape) not in views:
                x, last = made[cls], self.shapes.get(choice.get(self.last.get(cls, -1), -1))
                for s, v in sorted(wanted[cls].items(), key=lambda item: (item[0] == last, item[0] != shape_of(cls))):
                    x = views[cls, s] = reshaped(x, s, v)
            return views[cls, shape]

        def reshaped(x: int, shape: tuple[int, ...], view: int) -> int:
            if out.nodes[x].shape != shape:
                x = out.add("reshape", [x], shape=shape)
                origin[x] = view
            return x

        roots = [position[self.frozen.handle[o]] for o in source.outputs]
        wanted: dict[int, dict[tuple[int, ...], int]] = {}  # class of a value: the shapes that it is read in
        for c in roots:
            wanted.setdefault(viewed(c), {})[shape_of(c)] = choice[c]
        queue = list(wanted)
        for cls in queue:
            for value, shape, view in reads(choice[cls]):
                if value not in wanted:
                    queue.append(value)
                wanted.setdefault(value, {}).setdefault(shape, view)
        stack = [viewed(c) for c in reversed(roots)]
        while stack:
            cls = stack[-1]
            missing = [] if cls in made else [v for c in self.operands[choice[cls]] if (v := viewed(c)) not in made]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if cls not in made:
                made[cls] = emit(cls)
        out.outputs = [read(viewed(c), shape_of(c), choice[c]) for c in roots]
        return out, origin


def _units(e: ENode, frozen: Frozen, leaves: Mapping[int, ENode], family: Family) -> list[Unit]:
    operands = tuple(frozen.types[c] for c in e.children)
    result = frozen.types[e.cls]
    if e.move is not None and e.move.is_view:
        return [Unit((("reshape", attrs_of({"shape": e.move.out_shape})),), operands, result)]
    read = [leaves.get(c) for c in e.children]
    constants = tuple(dict(leaf.attrs)["value"] if leaf and leaf.op == "const" else None for leaf in read)
    if e.move is None:
        return [Unit(((e.op, e.attrs),), operands, result, constants)]
    from_input = read[0] is not None and read[0].op == "input"
    out = [Unit((), operands, result, constants, e.move, from_input)]
    direct = e.move.direct()
    if family.transposes.fused and direct is not None and family.transposes.native_of(direct) is not None:
        out.append(Unit((("transpose", attrs_of({"perms": direct})),), operands, result, from_input=from_input))
    return out


def build(frozen: Frozen, model: CostModel) -> Choices:
    """Candidates with their prices. Raises GraphError if an output cannot be computed."""
    roots = list(dict.fromkeys(frozen.handle[o] for o in frozen.source.outputs))
    classes = _reachable(frozen, roots)
    position = {c: i for i, c in enumerate(classes)}
    leaves = {e.cls: e for c in classes for e in frozen.classes[c] if e.op in ("input", "const")}
    enodes: list[ENode] = []
    units: list[Unit] = []
    operands: list[list[int]] = []
    nodes: list[list[int]] = [[] for _ in classes]
    for c in classes:
        for e in frozen.classes[c]:
            if all(ch in position for ch in e.children):
                for unit in _units(e, frozen, leaves, model.target.family):
                    nodes[position[c]].append(len(units))
                    enodes.append(e)
                    units.append(unit)
                    operands.append([position[ch] for ch in e.children])
    prices = model.price(units)
    cost = [math.inf if misplaced(u.op, u.operands, u.result) else p.cycles for u, p in zip(units, prices, strict=True)]
    widening = [is_widening(e.op, e.attrs) for e in enodes]
    behind = [[units[k] for ch in set(ops) for k in nodes[ch]] for ops in operands]
    pairs = {}
    for n, ops in enumerate(operands):
        for m in (m for cls in set(ops) for m in nodes[cls]):
            if math.isinf(cost[n]) or math.isinf(cost[m]):
                continue
            delta = cost[m] if widening[m] else 0.0
            fusion = model.fusion(units[n], units[m], behind[m])
            if fusion is not None:
                saved = fusion.of_reader * cost[n] + fusion.of_read * cost[m]
                # U55's transposes are estimated too low: a pair of them must not pay for itself by carrying what is between
                delta -= min(saved, cost[m]) if units[m].op == "transpose" else saved
            if delta:
                pairs[n, m] = delta
    kept = {position[r] for r in roots}
    copied = {n: p.copied for n, p in enumerate(prices) if p.copied is not None and not math.isinf(cost[n])}
    owner, steps = [position[e.cls] for e in enodes], [p.steps for p in prices]
    exempt = [owner[n] for n, e in enumerate(enodes) if widening[n] or e.op == "const"]
    stored = storage(
        [frozen.types[c].shape for c in classes], operands, owner, steps, copied, exempt, [position[r] for r in roots]
    )
    own = [
        [
            (
                0.0 if widening[n] and c not in kept and not math.isinf(cost[n]) else cost[n],
                operands[n] + stored.reads.get(n, []),
            )
            for n in ns
        ]
        for c, ns in enumerate(nodes)
    ]
    graph = ChoiceGraph.build(
        own + stored.rows, [position[r] for r in roots] + stored.roots, pair_costs=pairs | stored.pairs
    )
    return Choices(graph, frozen, classes, enodes, operands, steps, cost, stored.last, stored.shapes)


def _reachable(frozen: Frozen, roots: list[int]) -> list[int]:
    """Classes that roots and inputs need and that can be computed at all."""
    computable: set[int] = set()
    readers: dict[int, list[ENode]] = {}
    waiting: dict[int, int] = {}
    queue: list[int] = []
    for nodes in frozen.classes:
        for e in nodes:
            waiting[id(e)] = len(set(e.children))
            for ch in set(e.children):
                readers.setdefault(ch, []).append(e)
            if not e.children and e.cls not in computable:
                computable.add(e.cls)
                queue.append(e.cls)
    while queue:
        for e in readers.get(queue.pop(), ()):
            waiting[id(e)] -= 1
            if not waiting[id(e)] and e.cls not in computable:
                computable.add(e.cls)
                queue.append(e.cls)
    missing = [r for r in roots if r not in computable]
    if missing:
        raise GraphError(f"{len(missing)} output classes of the e-graph cannot be computed from the inputs")
    seen = set(roots) | {frozen.handle[i] for i in frozen.source.inputs}
    stack = list(seen)
    while stack:
        for e in frozen.classes[stack.pop()]:
            if all(ch in computable for ch in e.children):
                new = [ch for ch in e.children if ch not in seen]
                seen.update(new)
                stack.extend(new)
    return sorted(seen)
