"""From a saturated e-graph to a ChoiceGraph and back.

Every e-node becomes one candidate per way to write it in TOSA: a Move is a RESHAPE, or a TRANSPOSE on its own dims, or
the smallest TRANSPOSE between RESHAPEs; everything else is itself. Prices are cycles. Pairwise terms say
what Vela fuses: an operator read by the right neighbour costs nothing, or less.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cost_models.protocol import CostModel, Unit
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.ir import OPS, Attrs, GraphError, Node, TensorGraph, attrs_of
from extraction import ChoiceGraph

#: A RESCALE to INT32 is materialised once per reader: it fuses into each, and sharing one gives wrong results on U55
#: (pytorch/executorch issue 21415).
def is_widening(op: str, attrs: Attrs) -> bool:
    return op == "rescale" and dict(attrs)["dtype"] in ("INT32", "INT48")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute a class: an e-node, and for a Move the TOSA steps that realise it."""

    enode: ENode
    steps: tuple[tuple[str, Attrs], ...]


@dataclass(slots=True)
class Choices:
    """A ChoiceGraph over the classes that the outputs can reach, and what each of its nodes stands for."""

    graph: ChoiceGraph
    candidates: list[Candidate]
    frozen: Frozen
    classes: list[int]

    def tensor_graph(self, choice: Mapping[int, int]) -> tuple[TensorGraph, dict[int, int]]:
        """The TensorGraph of a choice, with the source's inputs and outputs in order; and {node: choice node}."""
        source, out = self.frozen.source, TensorGraph(output_names=list(self.frozen.source.output_names))
        made: dict[int, int] = {}
        origin: dict[int, int] = {}
        position = {c: i for i, c in enumerate(self.classes)}
        for i in source.inputs:
            made[position[self.frozen.handle[i]]] = out.add_input(source.nodes[i].attr("name"), source.nodes[i].shape, source.nodes[i].dtype)

        def emit(cls: int, operands: list[int]) -> int:
            candidate = self.candidates[choice[cls]]
            e, x = candidate.enode, operands
            if e.op == "const":
                t = self.frozen.types[e.cls]
                return out.add_const(dict(e.attrs)["value"].data, t.dtype, t.shape)
            if e.op == "input":
                raise GraphError(f"input {dict(e.attrs)['name']!r} is not one of the source's")
            for op, attrs in candidate.steps:
                x = [out.add_with(op, x, attrs)]
                origin[x[0]] = choice[cls]
            return x[0]

        def operand(cls: int) -> int:
            e = self.candidates[choice[cls]].enode
            if is_widening(e.op, e.attrs):
                return emit(cls, [operand(c) for c in self._children(choice[cls])])
            return made[cls]

        stack = [position[self.frozen.handle[o]] for o in reversed(source.outputs)]
        while stack:
            cls = stack[-1]
            missing = [c for c in self._children(choice[cls]) if c not in made]
            if cls in made or not missing:
                stack.pop()
                if cls not in made:
                    made[cls] = emit(cls, [operand(c) for c in self._children(choice[cls])])
            else:
                stack.extend(missing)
        out.outputs = [made[position[self.frozen.handle[o]]] for o in source.outputs]
        return out, origin

    def _children(self, node: int) -> list[int]:
        """Operand classes in operand order (the ChoiceGraph keeps them as given)."""
        return self._operands[node]

    _operands: list[list[int]] = None  # type: ignore[assignment]


def realisations(e: ENode) -> list[tuple[tuple[str, Attrs], ...]]:
    """Ways to write an e-node as a chain of TOSA ops."""
    if e.move is None:
        return [((e.op, e.attrs),)]
    m = e.move
    if m.is_view:
        return [(("reshape", attrs_of({"shape": m.out_shape})),)]
    ways = []
    shape, perm = m.squeezed()
    steps = [("transpose", attrs_of({"perms": perm}))]
    if shape != m.in_shape:
        steps.insert(0, ("reshape", attrs_of({"shape": shape})))
    if tuple(shape[p] for p in perm) != m.out_shape:
        steps.append(("reshape", attrs_of({"shape": m.out_shape})))
    ways.append(tuple(steps))
    direct = m.direct()
    if direct is not None and len(steps) > 1:
        ways.append((("transpose", attrs_of({"perms": direct})),))
    return ways


def build(frozen: Frozen, model: CostModel) -> Choices:
    """Prices every candidate with `model` and links it to its operands. Raises GraphError if an output cannot be computed."""
    roots = list(dict.fromkeys(frozen.handle[o] for o in frozen.source.outputs))
    classes = _reachable(frozen, roots)
    position = {c: i for i, c in enumerate(classes)}
    candidates: list[Candidate] = []
    units: list[Unit] = []
    rows: list[int] = []
    operands: list[list[int]] = []
    for c in classes:
        for e in frozen.classes[c]:
            if any(ch not in position for ch in e.children):
                continue
            for steps in realisations(e):
                candidates.append(Candidate(e, steps))
                units.append(Unit(steps, tuple(frozen.types[ch] for ch in e.children), frozen.types[c],
                                  tuple(_constant(frozen, ch) for ch in e.children)))
                operands.append([position[ch] for ch in e.children])
                rows.append(position[c])
    prices = model.price(units)
    table: list[list[tuple[float, list[int]]]] = [[] for _ in classes]
    for row, price, ops in zip(rows, prices, operands, strict=True):
        table[row].append((price, ops))
    by_class: dict[int, list[int]] = {}
    for n, row in enumerate(rows):
        by_class.setdefault(row, []).append(n)
    pairs = {}
    for n, ops in enumerate(operands):
        for cls in set(ops):
            for m in by_class.get(cls, ()):
                delta = model.pair(units[n], units[m], prices[n], prices[m], [units[k] for ch in operands[m] for k in by_class.get(ch, ())])
                if delta:
                    pairs[n, m] = delta
    per_reader = [position[c] for c in classes if frozen.classes[c] and all(is_widening(e.op, e.attrs) for e in frozen.classes[c])]
    graph = ChoiceGraph.build(table, [position[r] for r in roots], pair_costs=pairs, per_reader=per_reader)
    out = Choices(graph, candidates, frozen, classes)
    out._operands = operands
    return out


def _constant(frozen: Frozen, cls: int):
    return next((dict(e.attrs)["value"] for e in frozen.classes[cls] if e.op == "const"), None)


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


__all__ = ["Candidate", "Choices", "Node", "OPS", "build", "is_widening", "realisations"]
