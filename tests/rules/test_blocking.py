"""Convolutions in other spellings: every spelling that the rules make is exact."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat.egraph.encoding import saturate
from eqsat.egraph.rule import Rule
from eqsat.rules import RULES, blocking
from eqsat.tensor.graph import TensorGraph
from tests.rules.cases import convolved, narrowed
from tests.rules.checks import check
from tests.term import Term, finish, graph


def every() -> list[Rule]:
    return blocking.rules(lambda call, x, w, b, found: found)


EVERY = every()


def layer(x: Term, out: int, *kernel: int, **more: Any) -> Any:
    """A convolution and its RESCALE."""
    return narrowed(convolved(x, out, *kernel, **more), 38)


UPSAMPLED = {"op": "transpose_conv2d", "stride": (2, 3), "out_pad": (-1, 0, 0, 0)}
CASES = {
    "stride": graph("x:INT8[1,4,20,3]", lambda x: layer(x, 4, 1, 7, stride=(1, 5), pad=(0, 0, 1, 1), in_zp=4)),
    "thin": graph("x:INT8[1,4,8,2]", lambda x: layer(x, 3, 3, 3, pad=(1, 1, 1, 1), in_zp=-9)),
    "depthwise": graph("x:INT8[1,4,6,2]", lambda x: layer(x, 2, 3, 3, depthwise=True, pad=(1, 1, 1, 1))),
    "dilation": graph("x:INT8[1,2,16,4]", lambda x: layer(x, 4, 1, 3, dilation=(1, 4), pad=(0, 0, 8, 0))),
    "shallow": graph("x:INT8[1,1,1,12]", lambda x: layer(x, 7, 1, 1, in_zp=5)),
    "transposed": graph("x:INT8[1,3,4,2]", lambda x: layer(x, 3, 3, 2, **UPSAMPLED)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_spelling_is_exact(name: str) -> None:
    saturated = check(CASES[name], [*EVERY, *(r for r in RULES if r.family == "moves")])
    assert any(saturated.saturation.matches.get(r.name) for r in EVERY)


def test_what_was_made_of_one_graph_does_not_bear_on_the_next() -> None:
    """A convolution that the rules have made of a graph is spelled like any other where it is in another graph."""
    rules, moves = every(), [r for r in RULES if r.family == "moves"]
    frozen = saturate(CASES["stride"], rules)
    leaves = {e.cls: e for nodes in frozen.classes for e in nodes if e.op in ("input", "const")}
    found = 0
    for e in (e for nodes in frozen.classes for e in nodes if e.op == "conv2d"):
        g = TensorGraph()
        x = frozen.type_of(e.children[0])
        constants = [dict(leaves[c].attrs)["value"] for c in e.children[1:]]
        types = [frozen.type_of(c) for c in e.children[1:]]
        operands = [g.add_const(k.data, t.dtype, t.shape) for k, t in zip(constants, types, strict=True)]
        y = g.add_with("conv2d", [g.add_input("x", x.shape, x.dtype), *operands], e.attrs)
        finish(g, y)
        again, alone = (saturate(g, [*r, *moves]).saturation.matches for r in (rules, every()))
        assert again == alone
        found += any(name.startswith("spelled") for name in alone)
    assert found > 1


def test_what_a_slice_cut_off_is_taken_back() -> None:
    g = graph("x:INT8[1,1,24,2]", lambda x: layer(x.part(0, 21, 2), 3, 1, 5, stride=(1, 4)))
    assert check(g, EVERY).saturation.matches["spelled-conv-slice"] > 0


def test_weights_with_a_zero_point_stay() -> None:
    g = graph("x:INT8[1,4,20,3]", lambda x: layer(x, 4, 1, 5, stride=(1, 5), w_zp=1))
    assert not check(g, EVERY).saturation.matches.keys() & {r.name for r in EVERY}
