"""Counterexamples: inputs for which two graphs, run by the op table's integer semantics, differ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
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
