"""Graphs for which families of rules are there: what a short search finds takes so many fewer calibrated cycles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import ON_THE_NEWEST_VELA
from tests.rules.cases import convolved, looked_up
from tests.rules.test_blocking import layer
from tests.rules.test_convolution import multiplied
from tests.rules.test_grouped import lowered
from tests.term import Term, graph

pytestmark = pytest.mark.slow

U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
STEPS = 8


def vectors(x: Term) -> Term:
    """Two layers; the TABLE between them fuses into the first."""
    first = convolved(x, 128, 1, 1, in_zp=7).rescale("INT8", 1 << 30, 38)
    return convolved(looked_up(first, 3), 64, 1, 1, in_zp=7).rescale("INT8", 1 << 30, 38)


def recurrence(x: Term) -> tuple[Term, ...]:
    """Each step's row as ExecuTorch lays it out, with an output scale of its own."""
    random = np.random.default_rng(0)
    w, b = x.const(random.integers(-127, 128, (256, 1, 1, 40))), x.const(random.integers(-9, 9, 256), "INT32")

    def product(t: int) -> Term:
        row = x.part(t, 1, 1).reshape(1, 40, 1, 1).nhwc()
        return row.made("conv2d", makers.conv("INT8"), w, b).rescale("INT8", (1 << 30) + t * 99_999_999, 40)

    return tuple(map(product, range(STEPS)))


def counts(result: Result, op: str) -> int:
    return loads(result.tosa).op_counts()[op]


def nothing(result: Result) -> bool:
    return True


def is_small(result: Result) -> bool:
    given = loads(result.explicit)
    return result.stop == "saturated" and result.e_nodes <= 3 * len(given.live())


def are_two_by_two(result: Result) -> bool:
    chosen = loads(result.tosa)
    shapes = [chosen.nodes[n.inputs[1]].shape for n in chosen.nodes if n.op == "conv2d"]
    return shapes.count((8, 3, 3, 8)) == 4 and (4, 3, 3, 4) not in shapes


#: Target, graph, the largest share of its cycles, and what else holds. Comments: calibrated cycles before and after.
GAINS: dict[str, tuple[str, TensorGraph, float, Callable[[Result], bool]]] = {
    # 194,328 -> 33,052, as blocks
    "a large stride": (U55, graph("x:INT8[1,1,391,16]", lambda x: layer(x, 64, 1, 21, stride=(1, 10))), 0.2, nothing),
    # the state of a recurrent network by a matrix: 818 -> 458, with channels as taps
    "few channels of one place": (U85, graph("x:INT8[1,1,1,24]", lambda x: layer(x, 72, 1, 1)), 0.6, nothing),
    "two layers on a batch of vectors": (U55, graph("x:INT8[32,1,1,64]", vectors), 0.85, is_small),
    "a halved multiplier": (U55, graph("x:INT8[1,5,6,16]", lambda x: multiplied(x, 2)), 0.8, nothing),
    # groups two by two
    "a grouped convolution": (U85, lowered(8, 4, 28, explicit=False), 0.8, are_two_by_two),
    # 52,940 -> 25,176
    "a large MAX_POOL": (U55, graph("x:INT8[1,32,32,32]", lambda x: x.largest(5, 5, pad=(2, 2, 2, 2))), 0.75, nothing),
    # segmentation: a convolution, then the largest channel of each pixel
    "ARGMAX over channels": (
        U85,
        graph("x:INT8[1,16,20,8]", lambda x: x.layer(21, 3).argmax(3)),
        0.5,
        lambda result: counts(result, "transpose") == 1,
    ),
    # products of one matrix with many rows are one product
    "the steps of a recurrence": (
        U65,
        graph(f"x:INT8[1,{STEPS},40]", recurrence),
        1,
        lambda result: counts(result, "conv2d") == 1,
    ),
}
MARKS = {"the steps of a recurrence": ON_THE_NEWEST_VELA}


@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, ())) for n in GAINS])
def test_a_graph_takes_fewer_cycles(name: str, tmp_path: Path) -> None:
    """It is proved, and its binary is right."""
    target, given, share, also = GAINS[name]
    options = Options(effort=1, cache=tmp_path / "prices", max_sram="any", max_flash="any")
    result = optimize_tosa(dumps(given), target, options=options)
    assert result.chosen == "eqsat" and result.proved and result.binary_verified
    assert result.explicit_calibrated and result.calibrated < share * result.explicit_calibrated
    assert also(result)
