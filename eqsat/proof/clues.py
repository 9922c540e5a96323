"""Inputs on which two graphs are likely to differ, read off the terms in which they do.

Where a function differs, its root is given a value for which it does; where sums differ, a sum next to a threshold
behind it. That is possible where the root is an element of an input, or a convolution of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.proof.evaluation import evaluate
from eqsat.proof.field import Field, Lanes, Words, words
from eqsat.proof.functions import Functions, Ints
from eqsat.proof.values import Known, Terms, Value, unique
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, uniform
from eqsat.tensor.types import Array, GraphError

#: Nodes that are compared, functions of each that are, and the values that are tried of one.
_NODES, _FUNCTIONS, _VALUES = 6, 6, 4
#: How often an input is looked for that gives a sum a value.
_TRIES = 8


@dataclass(frozen=True, slots=True)
class _Sum:
    """A convolution's output: the elements of the input that it sums up, their weights, and what is added."""

    elements: Ints
    weights: Ints
    bias: int


def likely_inputs(
    a: TensorGraph, b: TensorGraph, lost: Sequence[int], new: Sequence[int], seed: int
) -> Iterator[list[Array]]:
    """lost, new: nodes of each graph whose values the other one lacks, in order. Raises Undecidable."""
    kept: list[dict[int, Value]] = [{}, {}]
    roots = _Roots(a)

    def seen(t: Terms, n: int, v: Value) -> Value:
        roots.see(t, n, v)
        if n in lost[:_NODES] and v.members == 1:
            kept[0][n] = v
        return v

    def seen_too(t: Terms, n: int, v: Value) -> Value:
        if n in new[:_NODES] and v.members == 1:
            kept[1][n] = v
        return v

    t = Terms(Field(seed))
    evaluate(t, a, seen)
    other = Terms(Field(seed), t)
    evaluate(other, b, seen_too)
    rng = np.random.default_rng(0)
    for lanes, value in _wishes(t.functions, a, b, kept):
        yield from roots.inputs(lanes, value, rng)


def _wishes(
    functions: Functions, a: TensorGraph, b: TensorGraph, kept: Sequence[Mapping[int, Value]]
) -> Iterator[tuple[Lanes, int]]:
    """Roots, and values that they should have."""
    for n, v in kept[1].items():
        for m, w in kept[0].items():
            if (a.nodes[m].op, a.type(m)) != (b.nodes[n].op, b.type(n)):
                continue
            same = (v.roots == w.roots).all(0)
            for mask, differ in ((same & (v.functions != w.functions), True), (~same, False)):
                places = np.flatnonzero(mask)
                pairs, inverse = unique(w.functions[places] * len(functions) + v.functions[places])
                for k in range(min(len(pairs), _FUNCTIONS)):
                    one, other = divmod(int(pairs[k]), len(functions))
                    at = places[np.argmax(inverse == k)]
                    points = functions.differences(one, other) if differ else functions.thresholds(one)
                    for value in points[:: max(1, len(points) // _VALUES)][:_VALUES].tolist():
                        yield w.roots[:, at], value
            break


class _Roots:
    """Where roots of a graph come from: elements of inputs, and convolutions of these."""

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        sizes = [graph.type(i).elements for i in graph.inputs]
        self._starts = dict(zip(graph.inputs, np.cumsum([0, *sizes]).tolist()))
        self._inputs: list[tuple[Words, Words, Ints]] = []
        self._elements: dict[int, Ints] = {}
        self._sums: list[tuple[Known, int]] = []

    def see(self, t: Terms, n: int, v: Value) -> None:
        node = self.graph.nodes[n]
        if node.op == "input":
            self._inputs.append((*words(v.roots), self._starts[n] + np.arange(v.elements)))
        elif node.op == "const":
            return
        elif node.op == "conv2d" and node.inputs[0] in self._elements and v.members == 1:
            self._sums.append((Known([(*words(v.roots), np.arange(v.elements))]), n))
        if v.members == 1 and v.dtype == "INT8" and len(v.shape) == 4:
            found, numbers = Known(self._inputs).find(v.roots)
            plain = t.functions.column("g")[v.functions] < 0
            if (found & plain).all() and (t.functions.column("a")[v.functions] == 1).all():
                self._elements[n] = numbers

    def inputs(self, lanes: Lanes, value: int, rng: np.random.Generator) -> Iterator[list[Array]]:
        """Inputs that give a root a value."""
        found, numbers = Known(self._inputs).find(lanes[:, None])
        if found[0]:
            yield from self._filled(numbers, np.array([value]), rng)
        for known, n in self._sums:
            found, at = known.find(lanes[:, None])
            if found[0]:
                total = self._sum(n, int(at[0]))
                for _ in range(_TRIES):
                    values = _solved(total, value, rng)
                    if values is not None:
                        yield from self._filled(total.elements, values, rng)
                        break

    def _filled(self, elements: Ints, values: Ints, rng: np.random.Generator) -> Iterator[list[Array]]:
        try:
            drawn = uniform(domains(self.graph), rng)
        except GraphError:
            return
        flat = np.concatenate([x.reshape(-1).astype(np.int64) for x in drawn])
        flat[elements] = values
        ends = np.cumsum([x.size for x in drawn])[:-1]
        yield [part.reshape(x.shape).astype(x.dtype) for part, x in zip(np.split(flat, ends), drawn)]

    def _sum(self, n: int, at: int) -> _Sum:
        node = self.graph.nodes[n]
        x, weights, bias = (self.graph.nodes[i] for i in node.inputs)
        batch, y, column, channel = np.unravel_index(at, node.shape)
        kernel = weights.attr("value").data.astype(np.int64)[channel] - node.attr("w_zp")[0]
        i, j, c = np.indices(kernel.shape)
        rows = y * node.attr("stride")[0] - node.attr("pad")[0] + i * node.attr("dilation")[0]
        columns = column * node.attr("stride")[1] - node.attr("pad")[2] + j * node.attr("dilation")[1]
        inside = (rows >= 0) & (rows < x.shape[1]) & (columns >= 0) & (columns < x.shape[2])
        flat = np.ravel_multi_index((np.full_like(rows, batch), rows, columns, c), x.shape, "clip")[inside]
        summand = int(np.broadcast_to(bias.attr("value").data, node.shape[-1:])[channel])
        factors = kernel[inside]
        return _Sum(self._elements[node.inputs[0]][flat], factors, summand - int(factors.sum()) * node.attr("in_zp")[0])


def _solved(total: _Sum, value: int, rng: np.random.Generator) -> Ints | None:
    """INT8 values that give a sum this value, if a greedy search in a random order finds them."""
    weights = total.weights
    x = rng.integers(-128, 128, len(weights))
    for k in [*rng.permutation(len(weights)), *np.argsort(-np.abs(weights), kind="stable")]:
        if weights[k]:
            missing = value - total.bias - int(weights @ x)
            x[k] = np.clip(x[k] + round(missing / weights[k]), -128, 127)
    return x if int(weights @ x) == value - total.bias else None
