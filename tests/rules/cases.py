"""Tables of graphs: rows on which a rule fires and is exact, and near misses that it spares.

A row has columns, apart by two spaces or more: the rule, and those that it needs beside it; the inputs x, y, z, of
which there may be several kinds apart by " | "; the graph, in the notation of `tests/term.py`; if need be, what holds
of the e-graph `frozen`, its `matches` and `e_nodes`, `ops` that compute the result, and `of_inputs`, those of them
that do it from inputs alone. A near miss begins with "-". Text behind "#" is a reason.

    move-move        INT8[block]            turned(turned(x))
    pool-separable   INT8[2,12,12,3]        x.largest(k, k)          e_nodes == 4
    - push-binary    INT8[3,4] INT8[3,1]    flat(x.max(y))           # the view merges an axis that broadcasts

Names in a row are those of its module, of this one, and those given with the table: of a list each in turn, in all
combinations; of a strategy of Hypothesis what it draws.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.tensor.graph import TensorGraph
from tests.rules.checks import of_inputs, ops_of_output, saturated, shapes, slices  # noqa: F401 - rows use it
from tests.sweeps import examples
from tests.term import Term

Names = Mapping[str, Any]


@dataclass(frozen=True)
class Drawn(Term):
    """A node of a graph that is drawn with Hypothesis' `draw`."""

    draw: Callable[..., Any] = lambda strategy: None

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


@dataclass(frozen=True)
class Row:
    """A row of a table for some values of its names."""

    rules: tuple[str, ...]
    inputs: str
    text: str
    held: str
    names: Names

    @property
    def id(self) -> str:
        shown = [f"{k}={v}" for k, v in self.names.items() if not callable(v) and not _is_strategy(v)]
        return " ".join([self.rules[0], self.inputs, self.text, *shown])

    def graph(self, draw: Callable[..., Any], names: Names) -> TensorGraph:
        words = sorted(set(re.findall(r"\w+", f"{self.inputs} {self.text}")) & names.keys())
        known = {**names, **{w: draw(names[w]) for w in words if _is_strategy(names[w])}}
        g = TensorGraph()
        for name, text in zip("xyz", self.inputs.split()):
            dtype, _, sizes = text.rstrip("]").partition("[")
            shape = np.hstack(eval(f"({sizes},)", known)).astype(int).tolist()
            known[name] = Drawn(g, g.add_input(name, tuple(shape), known.get(dtype, dtype)), draw)
        g.outputs = [eval(self.text, known).n]
        return g


def _is_strategy(value: Any) -> bool:
    return isinstance(value, st.SearchStrategy)


def rows(table: str, beside: str, names: Names) -> tuple[list[Row], list[Row]]:
    """Those on which rules fire, and near misses. beside: rules that are there in every row."""
    found: tuple[list[Row], list[Row]] = [], []
    for line in filter(None, (line.split("#")[0].strip() for line in table.splitlines())):
        rules, inputs, text, *held = re.split(r"\s{2,}", line.removeprefix("- "))
        for kind in inputs.split(" | "):
            used = {n: v for n, v in names.items() if re.search(rf"\b{n}\b", f"{rules} {kind} {text} {held}")}
            for values in itertools.product(*(v if isinstance(v, list) else [v] for v in used.values())):
                known = dict(zip(used, values))
                named = tuple(f"{rules} {beside}".format(**known).split())
                found[line[0] == "-"].append(Row(named, kind, text, *held or ["True"], known))
    return found


def of_table(module: Names, table: str, *, beside: str = "", fires_on: int = 4, spares: int = 4, **names: Any) -> Any:
    """The two tests over a table: that every rule fires and is exact, and that it spares its near misses.

    module: globals() of the table. fires_on, spares: examples per row, where something is drawn.
    """
    firing, missing = ([pytest.param(row, id=row.id) for row in found] for found in rows(table, beside, names))

    def matches(row: Row, data: st.DataObject) -> int:
        frozen = saturated(row.graph(data.draw, {**globals(), **module, **row.names}), *row.rules)
        found = frozen.saturation.matches.get(row.rules[0], 0)
        known = {"ops": ops_of_output(frozen), "of_inputs": of_inputs(frozen)}
        assert eval(row.held, {**module, "frozen": frozen, "matches": found, "e_nodes": frozen.n_nodes, **known})
        return found

    @pytest.mark.parametrize("row", firing)
    @settings(max_examples=examples(fires_on), deadline=None)
    @given(data=st.data())
    def test_fires_and_is_exact(row: Row, data: st.DataObject) -> None:
        assert matches(row, data)

    @pytest.mark.parametrize("row", missing)
    @settings(max_examples=examples(spares), deadline=None)
    @given(data=st.data())
    def test_spares_near_misses(row: Row, data: st.DataObject) -> None:
        assert not matches(row, data)

    return test_fires_and_is_exact, test_spares_near_misses


# ---- what rows are made of ----------------------------------------------------------------------


def randoms(shape: Sequence[int], seed: int = 5) -> np.ndarray:
    """Of INT8."""
    return np.random.default_rng(seed).integers(-128, 128, shape)


def looked_up(x: Term, seed: int = 1) -> Any:
    """A TABLE of random entries."""
    return x.table(randoms((256,), seed))


def convolved(
    x: Term, out: int, *kernel: int, op: str = "conv2d", depthwise: bool = False, bias: int = 0, **more: Any
) -> Any:
    """Random weights, and a bias of each channel or of so many; depthwise: `out` channels per input channel."""
    c = x.shape[-1]
    weights = randoms((*kernel, c, out) if depthwise else (out, *kernel, c))
    biases = np.arange(bias or (c * out if depthwise else out)) * 100 - 70
    return x.conv(weights, biases, op="depthwise_conv2d" if depthwise else op, **more)


def narrowed(x: Term, shift: int = 36) -> Any:
    """RESCALE per channel to INT8."""
    c = range(x.shape[-1])
    return x.rescale("INT8", [(1 << 30) + 1000 * i for i in c], [shift + i % 3 for i in c], out_zp=3)


def counted(x: Term) -> Term:
    """0, 1, 2, ... in the shape of x."""
    return x.const(np.arange(prod(x.shape)).reshape(x.shape))


def cut(x: Drawn, *given: Sequence[int]) -> Drawn:
    """A slice of some start and size."""
    start, size = given or x.draw(slices(x.shape))
    return x("slice", start=tuple(start), size=tuple(size))


def flat(x: Any) -> Any:
    return x.reshape(prod(x.shape))


def shuffled(x: Any, groups: int = 2, axis: int = -1) -> Any:
    """x with an axis in the order 0, n/groups, ..., 1, ...: view, transpose, view."""
    axis %= len(x.shape)
    y = x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    perms = [*range(axis), axis + 1, axis, *range(axis + 2, len(y.shape))]
    return y.transpose(*perms).reshape(*x.shape)


def exchanged(x: Any) -> Any:
    """Height and width exchanged."""
    return x.transpose(0, 2, 1, 3)


def turned(x: Drawn) -> Any:
    """A transpose that moves elements."""
    wide = [d for d, n in enumerate(x.shape) if n > 1]
    order = x.draw(st.permutations(wide).filter(lambda p: list(p) != wide))
    return x.transpose(*(dict(zip(wide, order)).get(d, d) for d in range(len(x.shape))))


def axis_of(x: Drawn) -> int:
    return x.number(0, len(x.shape) - 1)


def resized(shape: Sequence[int], axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def like(x: Drawn) -> Drawn:
    """An input of the shape of x."""
    return x.input(x.shape)


def broadcast(x: Drawn) -> Drawn:
    """An input that broadcasts to the shape of x."""
    return x.input([x.pick(1, n) for n in x.shape])


def either(x: Drawn, y: Term) -> Any:
    """Their MAXIMUM, in any order."""
    a, b = x.draw(st.permutations([x, y]))
    return a.max(b)


def siblings(x: Drawn, axis: int, count: int) -> list[Drawn]:
    """So many inputs of the shape of x, of any size along the axis."""
    return [x.input(resized(x.shape, axis, x.number(1, 4))) for _ in range(count)]


#: Functions of each element, as wide as it is.
POINTWISE: list[Callable[[Any], Any]] = [
    lambda x: x.clamp(-9, 50),
    looked_up,
    lambda x: x.rescale("INT8", 1500000000, 31, in_zp=2, out_zp=9),
]


def pointwise(x: Drawn, *others: Callable[[Any], Any]) -> Any:
    """A function of each element, as wide as x is, or one of the others."""
    return x.pick(*POINTWISE, *others)(x)


def widened(x: Term) -> Any:
    return x.rescale("INT32", in_zp=3)


#: At least two axes, at least two of them wider than one: there is something to move.
block = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=4).filter(lambda s: sum(n > 1 for n in s) > 1)
