"""2:4 sparsity: the orders of channels are exact, leave near misses alone, and halve what U85 computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.rules import sparsity
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.sparsity import two_of_four
from eqsat.tosa import dumps, loads
from tests.rules.checks import check, conv, cut, fires, only
from tests.rules.test_grouped import lowered
from tests.rules.test_weights import narrowed, shuffle
from tests.tensor.test_sparsity import blocks


def of_groups(groups: int, size: int, w_zp: int = 0) -> TensorGraph:
    """A convolution of an image with weights that are zero outside the blocks of groups."""
    g = TensorGraph()
    x = g.add_input("x", (1, 3, 3, groups * size), "INT8")
    weights, bias = g.add_const(blocks(groups, size, 2), "INT8"), g.add_const(np.arange(groups * size), "INT32")
    y = g.add_with("conv2d", (x, weights, bias), makers.conv("INT8", in_zp=3, w_zp=w_zp))
    g.outputs = [narrowed(g, y)]
    return g


@pytest.mark.parametrize(("groups", "size"), [(2, 4), (3, 4), (4, 4)])
def test_groups_take_turns(groups: int, size: int) -> None:
    frozen = check(of_groups(groups, size), only("channels-in-turn"))
    assert frozen.saturation.matches["channels-in-turn"] == 1


@pytest.mark.parametrize(("groups", "size", "w_zp"), [(1, 8, 0), (2, 3, 0), (2, 4, 1)])
def test_what_cannot_be_sparse_stays(groups: int, size: int, w_zp: int) -> None:
    assert not fires(of_groups(groups, size, w_zp), "channels-in-turn")


@pytest.mark.parametrize("start", [0, 4, 8])
def test_an_order_of_a_run_of_channels_is_one_of_all_runs(start: int) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3, 12), "INT8")
    g.outputs = [conv(g, shuffle(g, cut(g, x, (0, 0, 0, start), (1, 2, 3, 4)), 2), 5, (1, 1), zp=3)]
    assert fires(g, "order-slice", "move-move")


@pytest.mark.parametrize(("start", "size", "rows"), [(2, 4, 2), (0, 6, 2), (4, 4, 1)])
def test_other_slices_keep_their_order(start: int, size: int, rows: int) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3, 16), "INT8")
    g.outputs = [conv(g, shuffle(g, cut(g, x, (0, 0, 0, start), (1, rows, 3, size)), 2), 5, (1, 1), zp=3)]
    assert not fires(g, "order-slice", "move-move")


def families(target: str) -> set[str]:
    return {r.family for r in Options().identities(Target.of(target))}


def test_only_targets_that_skip_zeros_have_the_family() -> None:
    assert sparsity.RULES[0].family in families("ethos-u85-256")
    assert sparsity.RULES[0].family not in families("ethos-u55-128") | families("ethos-u65-256")


@pytest.mark.slow
def test_u85_computes_half_of_a_grouped_convolution(tmp_path: Path) -> None:
    """32 groups of 4 channels, 14x14: 37,792 calibrated cycles as they are, 27,248 merged in turn."""
    options = Options(cache=tmp_path / "p", max_sram="any", max_flash="any")
    result = optimize_tosa(dumps(lowered(32, 4, 14, explicit=False)), "ethos-u85-256", options=options)
    assert result.verified and result.proved and result.binary_verified
    chosen = loads(result.tosa)
    kernels = [chosen.nodes[n.inputs[1]] for n in chosen.nodes if n.op == "conv2d"]
    assert any(k.shape[1:3] == (3, 3) and two_of_four(k.attr("value").data) for k in kernels)
    assert result.explicit_calibrated and result.calibrated < 0.75 * result.explicit_calibrated
