"""Comparison of a graph from the e-graph with its source, region by region.

Hardly any input of a whole graph reveals one wrong value deep in a network.
But the nodes of the found graph compute e-classes, and so do those of the source.
Where both compute a class, the two values must be equal.
So both graphs are cut at these classes, which are cut points, into regions.
A region is computed in both graphs for free inputs at its own boundary.
All codes of an INT8 value are tried, not only those that the network happens to produce.
Regions where both graphs apply equal operators to equal classes need no samples.
By induction from inputs to outputs the graphs are equal, as far as the samples reveal it.

Free inputs at a boundary are more than the graph can make of its inputs.
Values at a boundary may also depend on each other.
So a difference may not occur in the graph.
Then the boundary is moved past the classes on it, and the larger region is tried.
This goes on down to the graph's inputs.
A difference that remains rejects the graph.
One that does not remain is a doubt: samples of a larger region may miss what occurs.

Regions and the steps of a proof both test each rule that was used on its own operands.
A proof would need the saturation again, recorded step by step (`eqsat/explain`).
That takes several times its seconds.
Regions need the two graphs alone, evaluated by the op table's semantics in this process.
They also reveal errors after the rules: in extraction and in writing the graph.

This is equivalence checking with cut points, with samples in place of a solver.
Source: Kuehlmann and Krohm, "Equivalence checking using cuts and heaps", DAC 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from operator import and_

import numpy as np

from eqsat.choice.choice import Choices
from eqsat.egraph.encoding import Frozen
from eqsat.tensor.alignment import patterns, reach
from eqsat.tensor.allowed import ANY
from eqsat.tensor.asked import asked
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.points import points
from eqsat.tensor.samples import INDEPENDENT, Domain, sample
from eqsat.tensor.types import Array
from eqsat.tosa.reference import Claim
from eqsat.verification.region_values import Leaf, Side, Variable, before_a_scale, difference, moved, on_all_codes, read

#: Samples per region, at least.
_FEWEST = 5
#: Samples per region, at most.
_MOST = 100
#: Elements, or multiply-accumulates, that the samples of a region compute, about.
_WORK = 1 << 19
#: Elements that take as long as a call of numpy.
_CALL = 2000
#: Boundaries that are tried per region, at most.
_LARGER = 24

#: Returns the smallest and largest value of a node of the source on samples, or None.
#: They are per index of the last axis.
Seen = Callable[[int], tuple[Array, Array] | None]


@dataclass(frozen=True, slots=True)
class Correspondence:
    """The values of a source graph and of a found graph that are said to be equal.

    source: {node: class}.
    found: {node: (class, the Move from the class's value, None if it is that value)}.
    """

    source: Mapping[int, int]
    found: Mapping[int, tuple[int, Move | None]]

    def members(self) -> dict[int, list[int]]:
        """Returns {class: nodes of the source}."""
        out: dict[int, list[int]] = {}
        for n, c in self.source.items():
            out.setdefault(c, []).append(n)
        return out

    def claims(self) -> list[Claim]:
        """Returns the correspondence as claims about pairs of nodes."""
        members = self.members()
        return [Claim(n, s, move) for n, (c, move) in self.found.items() for s in members[c]]


def correspondence(frozen: Frozen, found: TensorGraph, classes: Mapping[int, int]) -> Correspondence:
    """Returns the correspondence of a found graph and the source of an e-graph.

    classes: {node of the found graph: the class that it computes}.
    A class that the source computes only up to a Move is that Move of the other class.
    """
    source = dict(frozen.handle)
    known = set(source.values())
    moved: dict[int, tuple[int, Move]] = {}  # class: (class of the source, Move from there)
    for c in known:
        for e in frozen.classes[c]:
            if e.move is not None and e.children[0] not in known:
                moved.setdefault(e.children[0], (c, e.move.inverse()))
    for c in set(classes.values()) - known:
        for e in frozen.classes[c]:
            if e.move is not None and e.children[0] in known:
                moved[c] = (e.children[0], e.move)
    at: dict[int, tuple[int, Move | None]] = {}
    for i, j in zip(found.inputs, frozen.source.inputs, strict=True):
        at[i] = (source[j], None)
    for n, c in classes.items():
        if c in known:
            at[n] = (c, None)
        elif c in moved:
            at[n] = moved[c]
    return Correspondence(source, at)


def computed_classes(choices: Choices, graph: TensorGraph, origin: Mapping[int, int]) -> dict[int, int]:
    """Returns {node of a graph written from `choices`: the e-class that it computes}.

    origin: {node: choice node}.
    A choice node may become several nodes in a row, of which the last has the class's value.
    """
    readers = graph.readers()
    last = {n: c for n, c in origin.items() if n in readers and all(origin.get(r) != c for r in readers[n])}
    classes = {n: choices.classes[int(choices.graph.node_class[c])] for n, c in last.items()}
    return {n: c for n, c in classes.items() if choices.frozen.types[c] == graph.type(n)}


@dataclass(slots=True)
class Regions:
    """The result of comparing all regions.

    reason: the first difference that remains, or "".
    doubt: the first difference that a larger region did not show, or "".
    same: number of pairs of nodes that apply equal operators to equal classes.
    compared: number of regions that were computed.
    left: number of regions with operators that numpy does not compute.
    """

    reason: str = ""
    doubt: str = ""
    same: int = 0
    compared: int = 0
    left: int = 0


def compare_regions(
    source: TensorGraph, found: TensorGraph, same: Correspondence, seen: Seen, seed: int = 0
) -> Regions:
    """Compares all regions of two graphs of equal signatures.

    seen: limits of the source's values. seed: of the samples.
    """
    return _Cutter(source, found, same, seen, seed).run()


@dataclass(slots=True)
class _Region:
    """The nodes between a pair of nodes and a boundary, in order, and the boundary's leaves."""

    source: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    source_leaves: dict[int, Leaf] = field(default_factory=dict)
    found_leaves: dict[int, Leaf] = field(default_factory=dict)


class _Cutter:
    def __init__(self, source: TensorGraph, found: TensorGraph, same: Correspondence, seen: Seen, seed: int):
        self.source, self.found, self.same, self.seen, self.seed = source, found, same, seen, seed
        self.members = same.members()
        self.moved = {c: self._origin(c) for c in self.members}
        #: {class: nodes of the source that have its value or Moves of it, as a bit set}
        self.family: dict[int, int] = {}
        for c, (origin, _) in self.moved.items():
            self.family[origin] = self.family.get(origin, 0) | sum(1 << t for t in self.members[c])
        self.asked = asked(source)
        #: {node of the source: all that it depends on and itself, as a bit set}
        self.below: dict[int, int] = {}
        for n in source.live():
            self.below[n] = 1 << n
            for i in source.nodes[n].inputs:
                self.below[n] |= self.below[i]

    def _origin(self, cls: int) -> tuple[int, Move]:
        """Returns (class that the source moves to make this one, that Move).

        It is the class itself if the source does not move it.
        Both are one variable.
        """
        node = self.source.nodes[min(self.members[cls])]
        move = _identity(node)
        while (here := _movement(self.source, node)) and (whole := here.then(move)):
            cls, move = self.same.source[node.inputs[0]], whole
            node = self.source.nodes[min(self.members[cls])]
        return cls, move

    def run(self) -> Regions:
        out = Regions()
        for k, (n, s, move) in enumerate(self._pairs()):
            if self._is_same(n, s, move):
                out.same += 1
                continue
            try:
                first, differs = self._differs(n, s, move, np.random.default_rng((self.seed, k)))
            except (
                ArithmeticError,
                IndexError,
                ValueError,
            ):  # GraphError is one; or values that an operator does not take
                out.left += 1
                continue
            out.compared += 1
            value = f"the value of n{s} ({self.source.nodes[s].op}) differs in its region"
            if differs:
                out.reason = f"{value}: {differs}"
                break
            if first:
                out.doubt = out.doubt or f"{value}: {first}"
        return out

    def _pairs(self) -> Iterator[tuple[int, int, Move | None]]:
        """Yields (node of the found graph, node of the source, Move) that must be equal.

        They are in the order of the found graph.
        """
        outputs: dict[int, list[int]] = {}
        for n, s in zip(self.found.outputs, self.source.outputs, strict=True):
            outputs.setdefault(n, []).append(s)
        inputs = dict(zip(self.found.inputs, self.source.inputs, strict=True))
        for n in self.found.live():
            cls, move = self.same.found.get(n, (None, None))
            pairs = [(s, move) for s in self.members[cls]] if cls is not None else []
            pairs += [(s, None) for s in outputs.get(n, ()) if (s, None) not in pairs]
            yield from ((n, s, m) for s, m in pairs if inputs.get(n) != s)

    def _is_same(self, n: int, s: int, move: Move | None) -> bool:
        """Whether both nodes apply equal operators, or equal Moves, to equal values."""
        a, b = self.found.nodes[n], self.source.nodes[s]
        if move is None and (a.op, a.attrs, len(a.inputs)) == (b.op, b.attrs, len(b.inputs)) and a.inputs:
            return all(self._is_same_operand(i, j) for i, j in zip(a.inputs, b.inputs, strict=True))
        return bool(a.inputs) and self._is_same_movement(n, s, move or _identity(b))

    def _is_same_movement(self, n: int, s: int, move: Move) -> bool:
        """Whether n moves a class's value to where s has it, by the algebra of Moves.

        s has that class's value itself, or moves it too.
        """
        a, b = self.found.nodes[n], self.source.nodes[s]
        here, there = _movement(self.found, a), _movement(self.source, b)
        below = self.same.found.get(a.inputs[0])
        if here is None or below is None:
            return False
        cls, first = below
        moved = here if first is None else first.then(here)
        if there is not None and cls == self.same.source[b.inputs[0]]:
            return moved is not None and moved == there.then(move)
        return cls == self.same.source[s] and moved == move

    def _is_same_operand(self, i: int, j: int) -> bool:
        a, b = self.found.nodes[i], self.source.nodes[j]
        if a.op == "const":
            return a == b
        return self.same.found.get(i) == (self.same.source[j], None)

    # -- one pair

    def _differs(self, n: int, s: int, move: Move | None, rng: np.random.Generator) -> tuple[str, str]:
        """Returns (the difference of the first boundary, that which remains for every boundary).

        Either is "" if there is none.
        Raises GraphError for operators that cannot be computed here.
        """
        banned: set[int] = set()
        first = differs = ""
        for _ in range(_LARGER):
            region = self._region(n, s, banned)
            while hidden := {c for c in self._inner(region) if self._is_hidden(c)} - banned:
                banned |= hidden
                region = self._region(n, s, banned)
            differs = self._sampled(region, n, s, move, rng)
            first = first or differs
            inner = self._inner(region) - banned
            if not differs or not inner:
                break
            banned |= inner
        return first, differs

    def _inner(self, region: _Region) -> set[int]:
        """Returns the classes of the leaves that are not inputs of the graphs."""
        return {self.same.source[t] for t in region.source_leaves if self.source.nodes[t].op != "input"} | {
            self.same.found[v][0] for v in region.found_leaves if self.found.nodes[v].op != "input"
        }

    def _is_hidden(self, cls: int) -> bool:
        """Whether a class has an accumulator's dtype and unknown limits.

        Such values do not have the whole range of their dtype.
        """
        first = self.members[self.moved[cls][0]][0]
        return DType.of(self.source.nodes[first].dtype).is_accumulator and self._limits(first) is None

    def _region(self, n: int, s: int, banned: set[int]) -> _Region:
        """Returns the region of a pair above the classes that are not banned."""
        out = _Region()

        def is_found_leaf(v: int) -> bool:
            at = self.same.found.get(v)
            if at is None or self.found.nodes[v].op != "input" and (v == n or at[0] in banned):
                return False
            out.found_leaves[v] = self._leaf(*at)
            return True

        out.found = _above(self.found, n, is_found_leaf)
        bits = 0  # nodes of the source that have the values of the leaves, or Moves of them
        for (_, c), _ in out.found_leaves.values():
            bits |= self.family[self.moved[c][0]]

        def is_source_leaf(t: int) -> bool:
            cls = self.same.source[t]
            is_read = bits >> t & 1 and cls not in banned
            if self.source.nodes[t].op == "input" or t != s and is_read:
                out.source_leaves[t] = self._leaf(cls, None)
            elif t != s and cls not in banned and not self.below[t] & bits:
                out.source_leaves[t] = ("node", t), None  # the found graph does not use it
            else:
                return False
            return True

        out.source = _above(self.source, s, is_source_leaf)
        return out

    def _leaf(self, cls: int, move: Move | None) -> Leaf:
        """Returns a Move of a class as a leaf: a Move of the class that it is made of."""
        origin, first = self.moved[cls]
        whole = first.then(move) if move else first
        return (("class", origin), whole) if whole else (("class", cls), move)

    def _sampled(self, region: _Region, n: int, s: int, move: Move | None, rng: np.random.Generator) -> str:
        sides = (
            Side(self.source, s, region.source, region.source_leaves),
            Side(self.found, n, region.found, region.found_leaves),
        )
        variables = self._domains(sides)
        work = sum(_work(side.graph, t) for side in sides for t in side.nodes)
        if differs := on_all_codes(sides, variables):
            return differs
        # if all codes were compared, only their positions remain
        most = _FEWEST if differs == "" else max(_FEWEST, min(_MOST, _WORK // max(1, work)))
        for k in range(most):
            drawn = dict(zip(variables, sample(list(variables.values()), INDEPENDENT + k, rng), strict=True))
            want, got = (side.values(read(side.leaves, drawn)) for side in sides)
            if differs := difference(moved(want[s], move), got[n]) or before_a_scale(sides, want, got, move):
                return differs
        return ""

    def _domains(self, sides: Sequence[Side]) -> dict[Variable, Domain]:
        """Returns the domain of each variable.

        Accumulators are limited to possible or observed sums, so that nothing overflows.
        """
        leaves = [(points(s.graph, s.nodes), patterns(s.graph, s.nodes), s.leaves) for s in sides]
        out: dict[Variable, Domain] = {}
        for x in dict.fromkeys(x for side in sides for x, _ in side.leaves.values()):
            nodes = [x[1]] if x[0] == "node" else self.members[x[1]]
            t = self.source.type(nodes[0])
            is_input = any(self.source.nodes[n].op == "input" for n in nodes)
            limits = self._limits(nodes[0]) if DType.of(t.dtype).is_accumulator and not is_input else None
            low, high = limits or (None, None)
            at_leaves = [(p, q, n, m) for p, q, at in leaves for n, (variable, m) in at.items() if variable == x]
            out[x] = Domain(
                t,
                low,
                high,
                tuple(dict.fromkeys(v for p, _, n, _ in at_leaves for v in p.get(n, ()))),
                reduce(and_, (self.asked.get(n, ANY) for n in nodes)),
                tuple(m.inverse().apply(a) if m else a for _, q, n, m in at_leaves for a in q.get(n, ())),
            )
        return out

    def _limits(self, node: int) -> tuple[Array, Array] | None:
        """Returns the limits of a node of the source, or None if they are unknown."""
        return reach(self.source, node) or self.seen(node)


def _above(graph: TensorGraph, root: int, is_leaf: Callable[[int], bool]) -> list[int]:
    """Returns the nodes between a root and the leaves in order, without constants."""
    out, done, stack = [], {root}, [root]
    while stack:
        n = stack.pop()
        if graph.nodes[n].op != "const" and not is_leaf(n):
            out.append(n)
            stack.extend(set(graph.nodes[n].inputs) - done)
            done.update(graph.nodes[n].inputs)
    return sorted(out)


def _work(graph: TensorGraph, n: int) -> int:
    """Returns the elements that a node reads and writes, and the cost of a call, as elements.

    Elements under windows count as often as they are read.
    """
    node = graph.nodes[n]
    window = 1
    if node.op in ("conv2d", "depthwise_conv2d", "transpose_conv2d"):
        window = prod(graph.nodes[node.inputs[1]].shape[1:])
    elif node.op in ("max_pool2d", "avg_pool2d"):
        window = prod(node.attr("kernel"))
    elif node.op == "matmul":
        window = graph.nodes[node.inputs[0]].shape[-1]
    return _CALL + graph.type(n).elements * window + sum(graph.type(i).elements for i in node.inputs)


def _movement(graph: TensorGraph, node: Node) -> Move | None:
    """Returns the Move that a node is, or None if it is none."""
    if node.op == "transpose":
        return Move.transpose(graph.nodes[node.inputs[0]].shape, node.attr("perms"))
    return Move.reshape(graph.nodes[node.inputs[0]].shape, node.shape) if node.op == "reshape" else None


def _identity(node: Node) -> Move:
    return Move.reshape(node.shape, node.shape)
