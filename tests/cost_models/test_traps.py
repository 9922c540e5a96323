"""Traps of Vela's estimate are not exploited."""
import numpy as np

from eqsat.ir import TensorGraph
from eqsat.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tosa import dumps, loads
from eqsat.tosa.vela import compile_graph


def convolution(noop: bool) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 16), "INT8")
    w = g.add_const(np.random.default_rng(0).integers(-127, 128, (16, 1, 1, 16)), "INT8")
    y = g.add("conv2d", (x, w, g.add_const(np.zeros(16), "INT32")), pad=(0, 0, 0, 0), stride=(1, 1), dilation=(1, 1), local_bound=False,
              acc_type=5, in_zp=(0,), w_zp=(0,))
    y = g.add("rescale", (y,), dtype="INT8", multiplier=(1 << 30,), shift=(38,), in_zp=(0,), out_zp=(0,), scale32=True, rounding_mode=1,
              per_channel=False, input_unsigned=False, output_unsigned=False)
    if noop:
        y = g.add("clamp", (y,), min_val=b"\x80", max_val=b"\x7f", nan_mode=1)
    g.outputs.append(g.add("transpose", (g.add("transpose", (y,), perms=(0, 2, 1, 3)),), perms=(0, 2, 1, 3)))
    return g


def test_the_trap_is_there(pool):
    """Without it the next test would show nothing; on the day Vela mends it, both may go."""
    target = Target.of("ethos-u55-128")
    assert compile_graph(convolution(True), target, pool).cycles < compile_graph(convolution(False), target, pool).cycles


def test_a_noop_clamp_is_never_inserted():
    result = optimize_tosa(dumps(convolution(False)), Target.of("ethos-u55-128"))
    assert "clamp" not in loads(result.tosa).op_counts()
