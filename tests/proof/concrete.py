"""Terms at one input, for comparison with the op table: functions of the integers that roots stand for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from eqsat.device.binary import Binary
from eqsat.proof.binary import BinaryRun
from eqsat.proof.evaluation import evaluate
from eqsat.proof.field import Field, Lanes, Words
from eqsat.proof.functions import Ints
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array


class Opaque(Exception):
    """A symbol, which has no value at an input."""


class ConcreteField(Field):
    """Hashes nothing but the inputs, whose roots are replaced."""

    is_input = False

    def hash_keys(self, keys: tuple[Words, Words], *operands: Lanes) -> Lanes:
        if not self.is_input:
            raise Opaque
        return operands[0]

    def integers(self, lanes: Lanes) -> Ints:
        """Integers from the lanes, by the Chinese remainder theorem."""
        product = math.prod(self.primes)
        parts = [product // p * pow(product // p, -1, p) for p in self.primes]
        wholes = [sum(part * x for part, x in zip(parts, at)) % product for at in lanes.T.tolist()]
        return np.array([w - product if w > product // 2 else w for w in wholes], np.int64)


#: A copy of it need not draw the primes again.
_FIELD = ConcreteField(1)


class ConcreteTerms(Terms):
    """Roots are integers modulo the primes."""

    field: ConcreteField

    def lanes(self, v: Value) -> Lanes:
        if v.members > 1:
            v = self.collapse(v)
        return self.field.constants(self.integers(v))

    def integers(self, v: Value) -> Ints:
        """The values. They lie within the limits that are known of them."""
        roots = self.field.integers(v.roots)
        out = np.array([self._at(f, x) for f, x in zip(v.functions.tolist(), roots.tolist())], np.int64)
        low, high = (self.functions.column(name)[v.functions] for name in ("low", "high"))
        assert ((low <= out) & (out <= high)).all(), "a value lies outside of its limits"
        return out

    def _at(self, f: int, x: int) -> int:
        first, last, a = (int(self.functions.column(name)[f]) for name in ("first", "last", "a"))
        assert a == 0 or first <= x <= last, "a root lies outside of its function's domain"
        return int(self.functions.values(f, np.array([x]))[0])

    def _collapse_set(self, v: Value) -> Value:
        flat = Value((len(v.functions),), v.dtype, v.roots, v.functions)
        members = self.integers(flat).reshape(v.members, -1)
        best = members.max(0) if v.extremum == "max" else members.min(0)
        return self._as_root(v, self.field.constants(best))


def outputs_at(graph: TensorGraph, inputs: Sequence[Array]) -> list[Ints]:
    """The outputs of a graph at an input, by its terms. Raises Opaque where one is a symbol."""
    t = ConcreteTerms(copy(_FIELD))
    given = dict(zip(graph.inputs, inputs, strict=True))
    live = graph.live()
    following = dict(itertools.pairwise(live))
    t.field.is_input = graph.nodes[live[0]].op == "input"

    def seen(terms: Terms, n: int, v: Value) -> Value:
        if n in given:
            v.roots = terms.field.constants(given[n].astype(np.int64).reshape(-1))
        terms.field.is_input = n in following and graph.nodes[following[n]].op == "input"
        return v

    return [t.integers(t.collapse(v)).reshape(v.shape) for v in evaluate(t, graph, seen)]


def binary_outputs_at(graph: TensorGraph, binary: Binary, inputs: Sequence[Array]) -> list[Ints]:
    """The same of a binary of the graph. Raises EndedError where it has no form."""
    t = ConcreteTerms(copy(_FIELD))
    types = [graph.type(n) for n in graph.inputs]
    given = [
        t.root(t.field.constants(x.astype(np.int64).reshape(-1)), k.shape, k.dtype)
        for x, k in zip(inputs, types, strict=True)
    ]
    return [t.integers(t.plain(v)) for v in BinaryRun(graph, binary, t, given).outputs()]
