"""Counterexamples: inputs for which two graphs, run by the op table's integer semantics, differ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from eqsat.proof.evaluation import evaluate
from eqsat.proof.field import Field, Lanes, Words, words
from eqsat.proof.functions import Functions, Ints
from eqsat.proof.values import Known, Terms, Value, unique
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.samples import domains, samples, uniform
from eqsat.tensor.types import Array, GraphError, Unpredictable

#: Samples that are tried, at most.
_TRIALS = 24
#: Seconds after which no further input is tried.
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An input on which one element of one output differs.

    inputs: one array per graph input. output: number of the output. index: of the element in it.
    expected, found: the element's value in the first and in the second graph.
    """

    inputs: tuple[Array, ...]
    output: int
    index: tuple[int, ...]
    expected: int
    found: int

    @property
    def text(self) -> str:
        return f"output {self.output} at {list(self.index)}: {self.found} instead of {self.expected}"


def find_counterexample(a: TensorGraph, b: TensorGraph, first: Iterable[Sequence[Array]] = ()) -> Counterexample | None:
    """Returns the first counterexample among the inputs `first` and then samples, or None.

    Inputs are skipped on which the first graph overflows or meets what TOSA leaves undefined.
    """
    end = time.perf_counter() + _SECONDS
    for inputs in chain(first, _draw(a)):
        if (found := compare(a, b, inputs)) is not None:
            return found
        if time.perf_counter() > end:
            break
    return None


def _draw(a: TensorGraph) -> Iterator[Sequence[Array]]:
    try:
        yield from samples(domains(a), _TRIALS)
    except GraphError:  # inputs of a dtype that numpy does not have
        return


def compare(a: TensorGraph, b: TensorGraph, inputs: Sequence[Array]) -> Counterexample | None:
    """Returns the counterexample that one input gives, or None if the outputs are equal.

    Also returns None if TOSA leaves a value of the first graph open, or if a graph cannot be evaluated.
    """
    try:
        expected = evaluate_outputs(a, inputs)
        found = b.evaluate(inputs) if expected is not None else []
    except GraphError:
        return None
    for k, (x, y) in enumerate(zip(expected or (), found)):
        are_nan = (x != x) & (y != y)
        if (wrong := np.argwhere((x != y) & ~are_nan)).size:
            at = tuple(int(i) for i in wrong[0])
            return Counterexample(tuple(np.array(i) for i in inputs), k, at, x[at].item(), y[at].item())
    return None


def evaluate_outputs(graph: TensorGraph, inputs: Sequence[Array]) -> list[Array] | None:
    """Returns the graph's outputs, or None if TOSA leaves one of its values open. Raises GraphError."""
    try:
        return graph.evaluate(inputs, defined=True)
    except Unpredictable:
        return None


# Inputs on which two graphs are likely to differ, found from the terms in which they differ.
# Where the functions of one root differ, the root is given a value for which they do; where roots differ, one next to a
# threshold of its function. Both are possible only if the root is an element of an input, or a convolution of an input.

#: Nodes of either graph that are compared, at most.
_NODES = 6
#: Pairs of functions that are compared at a pair of nodes, at most.
_FUNCTIONS = 6
#: Values that are tried per pair of functions, about.
_VALUES = 4
#: Random attempts to find an input that gives a sum a certain value.
_TRIES = 8


@dataclass(frozen=True, slots=True)
class _Sum:
    """One output element of a convolution: sum(weights * input elements) + bias.

    elements: flat numbers of elements over all inputs of the graph.
    """

    elements: Ints
    weights: Ints
    bias: int


def likely_inputs(
    a: TensorGraph, b: TensorGraph, lost: Sequence[int], new: Sequence[int], outputs: Sequence[int], seed: int
) -> Iterator[list[Array]]:
    """Yields inputs, one array per graph input, on which the graphs are likely to differ. Raises Undecidable.

    lost: nodes of `a` whose values `b` lacks. new: nodes of `b` whose values `a` lacks.
    outputs: numbers of outputs that differ.
    """
    lost, new = ([*n[:_NODES], *(g.outputs[k] for k in outputs)] for g, n in ((a, lost), (b, new)))
    kept: list[dict[int, Value]] = [{}, {}]
    roots = _Roots(a)

    def see(t: Terms, n: int, v: Value) -> Value:
        roots.see(t, n, v)
        if n in lost and v.members == 1:
            kept[0][n] = v
        return v

    def see_too(t: Terms, n: int, v: Value) -> Value:
        if n in new and v.members == 1:
            kept[1][n] = v
        return v

    t = Terms(Field(seed))
    evaluate(t, a, see)
    other = Terms(Field(seed), t)
    evaluate(other, b, see_too)
    rng = np.random.default_rng(0)
    for lanes, value in _suggest_values(t.functions, a, b, kept):
        yield from roots.inputs(lanes, value, rng)


def _suggest_values(
    functions: Functions, a: TensorGraph, b: TensorGraph, kept: Sequence[Mapping[int, Value]]
) -> Iterator[tuple[Lanes, int]]:
    """Yields (lanes of a root, a value of it for which the graphs are likely to differ)."""
    for n, v in kept[1].items():
        alike = (m for m in kept[0] if a.type(m) == b.type(n))
        for m in sorted(alike, key=lambda m: a.nodes[m].op != b.nodes[n].op):  # the same operator first
            w = kept[0][m]
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
    """The roots of a graph that are elements of its inputs, or convolutions of these."""

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
        elif self._is_sum(node) and v.members == 1:
            self._sums.append((Known([(*words(v.roots), np.arange(v.elements))]), n))
        if v.members == 1 and v.dtype == "INT8" and len(v.shape) == 4:
            found, numbers = Known(self._inputs).find(v.roots)
            plain = t.functions.column("g")[v.functions] < 0
            if (found & plain).all() and (t.functions.column("a")[v.functions] == 1).all():
                self._elements[n] = numbers

    def _is_sum(self, node: Node) -> bool:
        """Whether a node is a convolution of an input with constants."""
        if node.op != "conv2d" or node.inputs[0] not in self._elements:
            return False
        return all(self.graph.nodes[i].op == "const" for i in node.inputs[1:])

    def inputs(self, lanes: Lanes, value: int, rng: np.random.Generator) -> Iterator[list[Array]]:
        """Yields inputs of the graph for which the root has this value."""
        found, numbers = Known(self._inputs).find(lanes[:, None])
        if found[0]:
            yield from self._fill(numbers, np.array([value]), rng)
        for known, n in self._sums:
            found, at = known.find(lanes[:, None])
            if found[0]:
                total = self._sum(n, int(at[0]))
                for _ in range(_TRIES):
                    values = _solve(total, value, rng)
                    if values is not None:
                        yield from self._fill(total.elements, values, rng)
                        break

    def _fill(self, elements: Ints, values: Ints, rng: np.random.Generator) -> Iterator[list[Array]]:
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


def _solve(total: _Sum, value: int, rng: np.random.Generator) -> Ints | None:
    """Returns INT8 values for which the sum is `value`, by a greedy search in a random order, or None if it fails."""
    weights = total.weights
    x = rng.integers(-128, 128, len(weights))
    for k in [*rng.permutation(len(weights)), *np.argsort(-np.abs(weights), kind="stable")]:
        if weights[k]:
            missing = value - total.bias - int(weights @ x)
            x[k] = np.clip(x[k] + round(missing / weights[k]), -128, 127)
    return x if int(weights @ x) == value - total.bias else None
