"""Graphs for the soundness tests, and the checker of `eqsat/checking/soundness.py` with the project's rules as
defaults.

>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> g.outputs = [clamp(g, clamp(g, x, -5, 90), -9, 60)]
>>> sorted(check(g, [r for r in RULES if r.name == "clamp-clamp"]).saturation.matches)
['clamp-clamp', ...]

Reusable by every family: `check` for a graph, `only` for one rule with the helpers it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from eqsat.checking import soundness
from eqsat.egraph.encoding import Frozen
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget
from eqsat.egraph.rule import Rule, with_helpers
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps


def only(*names: str, rules: Sequence[Rule] = RULES) -> list[Rule]:
    """The named rules and those that make the facts and postponed operators that they need."""
    missing = set(names) - {r.name for r in rules}
    assert not missing, f"no such rules: {missing}"
    return list(with_helpers((r for r in rules if r.name in names), [*rules, *RULES]))


def check(
    graph: TensorGraph,
    rules: Sequence[Rule] = RULES,
    *,
    budget: Budget = DEFAULT_BUDGET,
    trials: int = soundness.TRIALS,
) -> Frozen:
    """Saturates, evaluates every e-node on samples and compares with the graph itself. Raises Unsound."""
    return soundness.check(graph, rules, budget=budget, trials=trials).frozen


def saturated(graph: TensorGraph, *names: str, rules: Sequence[Rule] = RULES) -> Frozen:
    """What the named rules alone make of `graph`; everything is checked.

    Passes are few: what one rule moves to and fro, without those that merge movements, grows without end.
    """
    return check(graph, only(*names, rules=rules), budget=Budget(passes=8))


def fires(graph: TensorGraph, *names: str, rules: Sequence[Rule] = RULES) -> bool:
    """Whether the first of the named rules matched on `graph`, under these rules alone."""
    return saturated(graph, *names, rules=rules).saturation.matches.get(names[0], 0) > 0


def optimized(graph: TensorGraph, target: str, place: Path) -> Result:
    """What a short search without limits of memory finds, verified. place: of its prices."""
    options = Options(effort=1, cache=place / "prices", max_sram="any", max_flash="any")
    found = optimize_tosa(dumps(graph), target, options=options)
    assert found.verified and found.explicit_calibrated
    return found


def ops_of_output(frozen: Frozen, slot: int = 0) -> set[str]:
    """Operators among the e-nodes of an output's class."""
    return {e.op for e in frozen.classes[frozen.handle[frozen.source.outputs[slot]]]}


def of_inputs(frozen: Frozen, slot: int = 0) -> set[str]:
    """Operators that compute an output from inputs alone."""
    inputs = {frozen.handle.get(n) for n in frozen.source.inputs}
    nodes = frozen.classes[frozen.handle[frozen.source.outputs[slot]]]
    return {e.op for e in nodes if e.children and inputs.issuperset(e.children)}


# ---- building graphs ----------------------------------------------------------------------------


def clamp(g: TensorGraph, x: int, low: int, high: int) -> int:
    return g.add_with("clamp", (x,), makers.clamp(g.nodes[x].dtype, low, high))


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
    return g.add_with("rescale", (x,), makers.rescale(dtype, multiplier, shift, in_zp=in_zp, out_zp=out_zp))


def random_values(shape: Sequence[int], seed: int) -> np.ndarray:
    """Of INT8."""
    return np.random.default_rng(seed).integers(-128, 128, shape)


def table(g: TensorGraph, x: int, seed: int) -> int:
    return g.add_with("table", (x,), makers.table(np.random.default_rng(seed).integers(-128, 128, 256)))


def cut(g: TensorGraph, x: int, start: Sequence[int], size: Sequence[int]) -> int:
    return g.add("slice", (x,), start=tuple(start), size=tuple(size))


def pad(g: TensorGraph, x: int, pads: Sequence[int], value: int = 0) -> int:
    return g.add_with("pad", (x,), makers.pad(pads, value))


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
    weights = g.add_const(random_values(shape, 5), "INT8")
    bias = g.add_const(np.arange(c * out if depthwise else out) * 100, "INT32")
    return g.add_with(
        "depthwise_conv2d" if depthwise else "conv2d",
        (x, weights, bias),
        makers.conv("INT8", pad=padding, dilation=dilation, in_zp=zp),
    )


# ---- random shapes ------------------------------------------------------------------------------

#: Shapes of up to three axes, none wider than six.
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


@st.composite
def slices(draw, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, size) of some slice of `shape`."""
    size = [draw(st.integers(1, n)) for n in shape]
    return tuple(draw(st.integers(0, n - m)) for n, m in zip(shape, size, strict=True)), tuple(size)
