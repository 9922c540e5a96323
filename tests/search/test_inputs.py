"""Every input stays in the binary that Vela makes, with the shape that it had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqsat.device.compile import compile_binary
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.term import Term, graph, inputs, outputs

QUICK = Options(effort=1)
PLANES = "x:INT8[1,16,12,20]"


def useless_transposes(x: Term) -> Term:
    """Work whose transposes cost cycles and can go."""
    y = x.nhwc().relu(-50)
    return y.plus(y.relu(-9)).nchw()


def passed_through() -> TensorGraph:
    return graph(f"{PLANES} s:INT8[1,16,12,20]", lambda x, s: (useless_transposes(x), s))


def cancelled() -> TensorGraph:
    """The second output is the second input after two transposes."""
    return graph(f"{PLANES} s:INT8[1,16,12,20]", lambda x, s: (useless_transposes(x), s.nhwc().nchw()))


def cut_off() -> TensorGraph:
    """Nothing depends on the input a: the slice takes b out of the concat."""
    x, a, b = inputs(f"{PLANES} a:INT8[1,4,12,20] b:INT8[1,4,12,20]")
    return outputs(useless_transposes(x), a.concat(b, axis=1).part(4, 4, 1).relu(-3))


def keeps_all_inputs(tosa: bytes, given: TensorGraph, target: Target, pool: Pool) -> bool:
    """Whether Vela's binary of a graph has the inputs of the given one; it has six dims of each."""
    found = compile_binary(tosa, target, pool).inputs
    return [t.shape for t in found] == [(1, 1, *given.type(i).shape) for i in given.inputs]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "name"), [(passed_through, "ethos-u55-128"), (cancelled, "ethos-u85-256")])
def test_an_input_that_needs_no_operator_loses_no_gains(source, name: str, pool: Pool) -> None:
    given, target = source(), Target.of(name)
    result = optimize_tosa(dumps(given), target, options=replace(QUICK, max_sram="any", max_flash="any"))
    assert (result.chosen, result.verified, result.warnings) == ("eqsat", True, [])
    assert "transpose" not in loads(result.tosa).op_counts() and result.calibrated < result.explicit_calibrated
    assert keeps_all_inputs(result.tosa, given, target, pool)


def test_an_input_on_which_nothing_depends_stays(pool: Pool) -> None:
    given, target = cut_off(), Target.of("ethos-u55-128")
    result = optimize_tosa(dumps(given), target, options=QUICK)
    assert (result.chosen, result.verified) == ("explicit", True)
    assert any("input 'a' would no longer be read" in w for w in result.warnings)
    assert keeps_all_inputs(result.tosa, given, target, pool)
