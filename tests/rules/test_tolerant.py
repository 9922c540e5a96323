"""Tolerant rules keep their bounds, refuse what would break them, and the whole result says by how much it differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from eqsat.cli.app import app
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.ground.worker import Worker
from eqsat.options.options import OptionError, Options
from eqsat.rules import RULES, tolerant
from eqsat.rules.chains import integer_scale
from eqsat.rules.tolerant import BOUND
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import evaluate_op
from eqsat.tosa import dumps, loads
from eqsat.verification.deviation import deviation
from tests.graphs import conv, finish, relu, rescale, transpose
from tests.rules.checks import data
from tests.rules.test_channels import per_channel

U55 = Target.of("ethos-u55-128")
POINTS = np.arange(-128, 128, dtype=np.int8)


HELPERS = [r for r in RULES if r.name == "move-identity" or r.family == "channels" and r.analysis]


def saturated(g: TensorGraph) -> Frozen:
    return saturate(g, [*HELPERS, *tolerant.RULES])


def one_rounding(frozen: Frozen, x: np.ndarray) -> np.ndarray | None:
    """What RESCALE (depthwise x) of the output's class gives for the input x, if the class has it."""
    source = frozen.handle[frozen.source.inputs[0]]
    for e in frozen.classes[frozen.handle[frozen.source.outputs[0]]]:
        for conv_node in frozen.classes[e.children[0]] if e.op == "rescale" and dict(e.attrs)["per_channel"] else ():
            if conv_node.op == "depthwise_conv2d" and conv_node.children[0] == source:
                constants = [
                    next(dict(c.attrs)["value"].data for c in frozen.classes[k] if c.op == "const")
                    for k in conv_node.children[1:]
                ]
                sums = evaluate_op(conv_node.op, conv_node.attrs, [x, *constants], frozen.types[conv_node.cls])
                return evaluate_op("rescale", e.attrs, [sums], frozen.types[e.cls])
    return None


def chain(ops: list[str], seed: int, slopes: list[float], zps: list[int]) -> tuple[TensorGraph, list[int]]:
    """A chain over all INT8 values in each of 3 channels, and its INT8 values inside."""
    g, rng = TensorGraph(), np.random.default_rng(seed)
    x, inner = g.add_input("x", (1, 16, 16, 3), "INT8"), []
    zp = -3
    for op, slope, out in zip(ops, slopes, zps, strict=True):
        x = per_channel(
            g,
            x,
            op,
            rng.integers(-60, 60, 3),
            # the factors differ: Vela gives convolutions of equal weights and scales the same biases
            # (eqsat/vela/guards.py)
            scale=integer_scale(slope / 64 if op == "mul" else slope / 2**19),
            zp=zp,
            out_zp=out,
        )
        zp = out
        inner.append(x)
    return finish(g, x), inner[:-1]


@settings(max_examples=20, deadline=None)
@given(
    ops=st.lists(st.sampled_from(["add", "sub", "mul"]), min_size=2, max_size=4),
    seed=st.integers(0, 9999),
    data=st.data(),
)
def test_a_chain_keeps_its_bound_where_nothing_saturates(ops, seed, data) -> None:
    slopes = data.draw(st.lists(st.floats(0.3, 2), min_size=len(ops), max_size=len(ops)))
    zps = data.draw(st.lists(st.integers(-100, 100), min_size=len(ops), max_size=len(ops)))
    g, inner = chain(ops, seed, slopes, zps)
    x = np.repeat(POINTS, 3).reshape(1, 16, 16, 3)
    found = one_rounding(saturated(g), x)
    assume(found is not None)
    free = np.ones(x.shape, bool)
    for n in inner:
        (value,) = replace(g, outputs=[n]).evaluate([x])
        free &= ~np.isin(value, DType.of("INT8").limits)
    (exact,) = g.evaluate([x])
    assert np.abs(found.astype(int) - exact)[free].max(initial=0) <= BOUND


def test_an_unfolded_batch_norm_is_one_convolution() -> None:
    g, _ = chain(["sub", "mul", "mul", "add"], 1, [1, 1, 1, 1], [4, 0, -3, 5])
    x = np.clip(data(g.type(0), "random"), -40, 40)
    found = one_rounding(saturated(g), x)
    assert found is not None and 0 < np.abs(found.astype(int) - g.evaluate([x])[0]).max() <= BOUND


@pytest.mark.parametrize(
    ("case", "slopes", "zps"),
    [
        ("a rounding grows beyond the bound", [0.05, 18.0], [0, 0]),
        ("an activation inside", [1.0, 1.0], [-128, 0]),
        ("one op: that is exact", [1.0], [0]),
    ],
)
def test_a_chain_is_refused(case: str, slopes: list[float], zps: list[int]) -> None:
    g, _ = chain(["mul"] * len(slopes), 3, slopes, zps)
    assert "channels-chain" not in saturated(g).saturation.matches, case


# ---- two RESCALEs -------------------------------------------------------------------------------


def two_rescales(
    first: tuple[float, int], second: tuple[float, int, int], dtype: str = "INT8", channels: int = 1
) -> TensorGraph:
    """(scale, out_zp) of INT32 to INT8, then (scale, in_zp, out_zp) to `dtype`."""
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 16), "INT32")
    scales = [integer_scale(first[0] * (1 + c / 16)) for c in range(channels)]
    y = rescale(g, x, "INT8", multiplier=[m for m, _ in scales], shift=[s for _, s in scales], out_zp=first[1])
    multiplier, shift = integer_scale(second[0])
    return finish(g, rescale(g, y, dtype, multiplier=(multiplier,), shift=(shift,), in_zp=second[1], out_zp=second[2]))


@settings(max_examples=30, deadline=None)
@given(
    scale=st.floats(1e-4, 0.5),
    second=st.floats(0.99, 4),
    zp=st.integers(-128, 127),
    out_zp=st.integers(-128, 127),
    channels=st.sampled_from([1, 16]),
    dtype=st.sampled_from(["INT8", "INT16"]),
    seed=st.integers(0, 99),
)
def test_two_rescales_keep_their_bound(scale, second, zp, out_zp, channels, dtype, seed) -> None:
    g = two_rescales((scale, zp), (second, zp, out_zp), dtype, channels)
    frozen = saturated(g)
    rng = np.random.default_rng(seed)
    reach = int(200 / scale)
    x = rng.integers(-reach, reach, (1, 4, 4, 16)).astype(np.int32)
    x[0, 0, 0, :2] = -(2**30), 2**30
    source = frozen.handle[0]
    merged = [e for e in frozen.classes[frozen.handle[g.outputs[0]]] if e.op == "rescale" and e.children == (source,)]
    if dtype == "INT16":
        assert not merged, "it holds what INT8 cut"
        return
    assume(merged)
    found = evaluate_op("rescale", merged[0].attrs, [x], frozen.types[merged[0].cls])
    assert np.abs(found.astype(int) - g.evaluate([x])[0]).max() <= BOUND


@pytest.mark.parametrize(
    ("case", "graph", "merges"),
    [
        ("the second saturates first", two_rescales((0.01, 5), (1.5, 5, 0)), True),
        ("per channel", two_rescales((0.01, 5), (1.5, 5, 0), channels=16), True),
        ("the first would have cut", two_rescales((0.01, 5), (0.5, 5, 0)), False),
        ("a rounding grows", two_rescales((0.01, 0), (9.0, 0, 0)), False),
        ("INT16 holds what INT8 cut", two_rescales((0.01, 0), (1.0, 0, 0), "INT16"), False),
        ("INT32 to INT32 is no RESCALE for U55", two_rescales((0.01, 0), (1.0, 0, 0), "INT32"), False),
    ],
)
def test_when_two_rescales_merge(case: str, graph: TensorGraph, merges: bool) -> None:
    matches = saturated(graph).saturation.matches
    assert any(name.startswith("rescale-rescale") for name in matches) == merges, case


# ---- the whole way ------------------------------------------------------------------------------


def batch_norm(saturating: bool = False) -> TensorGraph:
    """conv, an unfolded BatchNorm in NCHW, ReLU, conv."""
    g, rng = TensorGraph(), np.random.default_rng(0)
    y = transpose(g, conv(g, g.add_input("x", (1, 16, 16, 16), "INT8"), 24), 0, 3, 1, 2)
    for op, slope in (("sub", 1.0), ("mul", 1.2), ("mul", 1.0), ("add", 9.0 if saturating else 1.1)):
        y = per_channel(
            g,
            y,
            op,
            rng.integers(20, 60, 24),
            # the factors differ: Vela gives convolutions of equal weights and scales the same biases
            # (eqsat/vela/guards.py)
            scale=integer_scale(slope / 64 if op == "mul" else slope / 2**19),
            zp=2,
            out_zp=2,
            axis=1,
        )
    return finish(g, conv(g, transpose(g, relu(g, y, 2), 0, 2, 3, 1), 16, seed=3))


@pytest.fixture
def options() -> Options:
    return Options(time_limit=2, rounds=1, extractor="dag_greedy", numerics="tolerant")


@pytest.mark.slow
def test_a_tolerant_result_is_cheaper_nearer_and_says_so(options: Options, worker: Worker) -> None:
    g = batch_norm()
    result = optimize_tosa(dumps(g), U55, options=options)
    exact = optimize_tosa(dumps(g), U55, options=replace(options, numerics="exact"))
    assert exact.verified and exact.deviation is None and result.cycles < exact.cycles < exact.explicit_cycles
    assert result.chosen == "eqsat" and not result.verified and result.warnings == []
    d = result.deviation
    assert d == deviation(loads(dumps(g)), loads(result.tosa), worker, options.trials)
    assert 0 < d.mean[0] <= d.largest[0] <= options.tolerance and d.error_after[0] < d.error_before[0]
    assert d.text.startswith(f"not bit-exact: differs from the exact graph by at most {d.largest[0]:g} steps")
    assert f"{d.error_before[0]:.2f} before, {d.error_after[0]:.2f} after" in d.text


@pytest.mark.slow
def test_a_tolerance_that_nothing_meets_leaves_the_exact_result(options: Options) -> None:
    result = optimize_tosa(dumps(batch_norm()), U55, options=replace(options, tolerance=0))
    assert result.verified and result.deviation is None and result.chosen == "eqsat"
    assert any("steps, more than 0" in w for w in result.warnings)


def test_without_chains_tolerant_is_exact(options: Options) -> None:
    g = TensorGraph()
    finish(g, relu(g, conv(g, g.add_input("x", (1, 8, 8, 16), "INT8"), 16)))
    result = optimize_tosa(dumps(g), U55, options=options)
    assert result.verified and result.deviation is None and result.warnings == []


def test_numerics_are_named() -> None:
    with pytest.raises(OptionError, match="exact, sampled, tolerant"):
        Options(numerics="loose")


def test_the_command_line_tells_the_deviation(tmp_path: Path) -> None:
    source, out = tmp_path / "in.tosa", tmp_path / "out.tosa"
    source.write_bytes(dumps(batch_norm()))
    done = CliRunner().invoke(
        app,
        [
            "optimize",
            str(source),
            "-t",
            "ethos-u55-128",
            "-o",
            str(out),
            "--numerics",
            "tolerant",
            "--extractor",
            "dag_greedy",
        ],
    )
    assert done.exit_code == 0, done.output
    assert "not bit-exact" in done.output and "verified bit for bit" not in done.output and out.is_file()
    done = CliRunner().invoke(
        app, ["optimize", str(source), "-t", "ethos-u55-128", "-o", str(out), "--numerics", "loose"]
    )
    assert done.exit_code == 2 and "tolerant" in done.stderr
