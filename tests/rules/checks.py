"""Graphs for the soundness tests, and the checker of `eqsat/checking/soundness.py` with the project's rules as defaults.

>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> g.outputs = [clamp(g, clamp(g, x, -5, 90), -9, 60)]
>>> sorted(check(g, [r for r in RULES if r.name == "clamp-clamp"]).saturation.matches)
['clamp-clamp', ...]

Reusable by every family: `check` for a graph, `small_graphs` for random ones, `only` for one rule with the helpers it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from hypothesis import strategies as st

from eqsat.checking import soundness
from eqsat.checking.soundness import data
from eqsat.egraph.encoding import Frozen
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget, Extern, Rule
from eqsat.rules import EXTERNS, RULES
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type

#: Rules that others need to do anything: they only make what a placeholder e-node stands for.
_PLACEHOLDERS = ("resized", "cut")


def only(*names: str, rules: Sequence[Rule] = RULES) -> list[Rule]:
    """The named rules, the analyses and the rules for placeholders."""
    missing = set(names) - {r.name for r in rules}
    assert not missing, f"no such rules: {missing}"
    return [r for r in rules if r.name in names or r.analysis or r.name in _PLACEHOLDERS]


def check(
    graph: TensorGraph,
    rules: Sequence[Rule] = RULES,
    externs: Sequence[Extern] = EXTERNS,
    *,
    budget: Budget = DEFAULT_BUDGET,
    kinds: Iterable[str] = soundness.KINDS,
) -> Frozen:
    """Saturates, evaluates every e-node on each kind of data and compares with the graph itself. Raises Unsound."""
    return soundness.check(graph, rules, externs, budget=budget, kinds=kinds).frozen


def fires(graph: TensorGraph, *names: str, rules: Sequence[Rule] = RULES, externs: Sequence[Extern] = EXTERNS) -> bool:
    """Whether the first of the named rules matched on `graph`, under these rules alone; everything is checked."""
    return check(graph, only(*names, rules=rules), externs).saturation.matches.get(names[0], 0) > 0


def ops_of_output(frozen: Frozen, slot: int = 0) -> set[str]:
    """Operators among the e-nodes of an output's class."""
    return {e.op for e in frozen.classes[frozen.handle[frozen.source.outputs[slot]]]}


# ---- building graphs ----------------------------------------------------------------------------


def clamp(g: TensorGraph, x: int, low: int, high: int) -> int:
    kind = DType.of(g.nodes[x].dtype).storage
    return g.add("clamp", (x,), min_val=kind(low).tobytes(), max_val=kind(high).tobytes(), nan_mode=1)


def rescale(
    g: TensorGraph,
    x: int,
    dtype: str,
    multiplier: int | Sequence[int] = 1 << 30,
    shift: int | Sequence[int] = 30,
    in_zp: int = 0,
    out_zp: int = 0,
) -> int:
    """A RESCALE by multiplier * 2^-shift, per channel if those are sequences."""
    per_channel = not isinstance(multiplier, int)
    return g.add(
        "rescale",
        (x,),
        dtype=dtype,
        multiplier=tuple(multiplier) if per_channel else (multiplier,),
        shift=tuple(shift) if per_channel else (shift,),
        in_zp=(in_zp,),
        out_zp=(out_zp,),
        per_channel=per_channel,
        scale32=True,
        rounding_mode=1,
        input_unsigned=False,
        output_unsigned=False,
    )


def table(g: TensorGraph, x: int, seed: int) -> int:
    return g.add("table", (x,), table=tuple(np.random.default_rng(seed).integers(-128, 128, 256).tolist()))


def cut(g: TensorGraph, x: int, start: Sequence[int], size: Sequence[int]) -> int:
    return g.add("slice", (x,), start=tuple(start), size=tuple(size))


def pad(g: TensorGraph, x: int, pads: Sequence[int], value: int = 0) -> int:
    return g.add("pad", (x,), pads=tuple(pads), value=(value,))


def conv(
    g: TensorGraph,
    x: int,
    out: int,
    kernel: tuple[int, int],
    zp: int,
    padding: tuple[int, ...] = (0, 0, 0, 0),
    *,
    depthwise: bool = False,
    dilation: tuple[int, int] = (1, 1),
) -> int:
    """A convolution with random weights and bias; depthwise: `out` channels per input channel."""
    c = g.nodes[x].shape[-1]
    shape = (*kernel, c, out) if depthwise else (out, *kernel, c)
    weights = g.add_const(data(Type(shape, "INT8"), "random", 5), "INT8")
    bias = g.add_const(np.arange(c * out if depthwise else out) * 100, "INT32")
    return g.add(
        "depthwise_conv2d" if depthwise else "conv2d",
        (x, weights, bias),
        pad=padding,
        stride=(1, 1),
        dilation=dilation,
        in_zp=(zp,),
        w_zp=(0,),
        acc_type=5,
        local_bound=False,
    )


# ---- random graphs ------------------------------------------------------------------------------

#: Shapes of up to three axes, none wider than six.
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


@st.composite
def slices(draw, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, size) of some slice of `shape`."""
    size = [draw(st.integers(1, n)) for n in shape]
    return tuple(draw(st.integers(0, n - m)) for n, m in zip(shape, size, strict=True)), tuple(size)


def _steps(draw, g: TensorGraph, x: int, seed: int) -> Iterator[tuple[str, int]]:
    """No or one random op on x, INT8 to INT8: (its kind, its node)."""
    shape = g.nodes[x].shape
    kind = draw(
        st.sampled_from(
            [
                "transpose",
                "merge",
                "slice",
                "pad",
                "concat",
                "rejoin",
                "clamp",
                "table",
                "rescale",
                "quantized",
                "reduce",
                "add",
            ]
        )
    )
    if kind == "transpose":
        yield kind, g.add("transpose", (x,), perms=tuple(draw(st.permutations(range(len(shape))))))
    elif kind == "merge" and len(shape) > 1:
        yield kind, g.add("reshape", (x,), shape=(shape[0] * shape[1], *shape[2:], 1))
    elif kind == "slice":
        yield kind, cut(g, x, *draw(slices(shape)))
    elif kind == "pad":
        yield (
            kind,
            pad(g, x, [draw(st.integers(0, 1)) for _ in range(2 * len(shape))], draw(st.sampled_from([0, -128, 7]))),
        )
    elif kind == "concat":
        other = (
            g.add_const(data(Type(shape, "INT8"), "random", seed), "INT8")
            if draw(st.booleans())
            else clamp(g, x, -100, 100)
        )
        yield kind, g.add("concat", (x, other), axis=draw(st.integers(0, len(shape) - 1)))
    elif kind == "rejoin":
        axis = draw(st.integers(0, len(shape) - 1))
        if shape[axis] > 1:
            at = draw(st.integers(1, shape[axis] - 1))
            zero = [0] * len(shape)
            low = cut(g, x, zero, (*shape[:axis], at, *shape[axis + 1 :]))
            high = cut(
                g, x, (*zero[:axis], at, *zero[axis + 1 :]), (*shape[:axis], shape[axis] - at, *shape[axis + 1 :])
            )
            yield kind, g.add("concat", (clamp(g, low, -90, 90), clamp(g, high, -90, 90)), axis=axis)
    elif kind == "clamp":
        yield kind, clamp(g, x, draw(st.sampled_from([-128, -100, 0])), draw(st.sampled_from([127, 60])))
    elif kind == "table":
        yield kind, table(g, x, draw(st.integers(0, 2)))
    elif kind == "rescale":
        yield (
            kind,
            rescale(g, x, "INT8", draw(st.sampled_from([1 << 30, 1500000000])), draw(st.sampled_from([30, 31])), 3, 3),
        )
    elif kind == "quantized":
        wide = rescale(g, x, "INT32", in_zp=5)
        k = g.add_const(np.full((1,) * len(shape), draw(st.integers(-9, 9))), "INT32")
        other = draw(st.sampled_from([k, wide, rescale(g, table(g, x, 9), "INT32", out_zp=0)]))
        yield kind, rescale(g, g.add("mul", (wide, other), shift=(0,)), "INT8", 1 << 30, 35, 0, -4)
    elif kind == "reduce" and max(shape) > 1:
        wide = g.add("reduce_sum", (rescale(g, x, "INT32"),), axis=draw(st.integers(0, len(shape) - 1)))
        yield kind, rescale(g, wide, "INT8", 1 << 30, 32)
    elif kind == "add":
        row = g.add_const(np.arange(shape[-1]).reshape((1,) * (len(shape) - 1) + (-1,)), "INT32")
        yield kind, rescale(g, g.add("add", (rescale(g, x, "INT32"), row)), "INT8")


@st.composite
def small_graphs(draw, longest: int = 6) -> TensorGraph:
    """A chain of random INT8 ops with forks, of at most a few hundred elements; the last value and one from inside are outputs."""
    g = TensorGraph()
    values = [g.add_input("x", draw(shapes), "INT8")]
    for seed in range(draw(st.integers(1, longest))):
        if g.type(values[-1]).elements > 300:
            break
        values += [n for _, n in _steps(draw, g, values[-1], seed)]
    g.outputs = [values[-1], draw(st.sampled_from(values))]
    g.output_names = ["last", "inside"]
    return g
