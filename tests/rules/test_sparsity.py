"""2:4 sparsity: the orders of channels are exact, leave near misses alone, and halve what U85 computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.rules import sparsity
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.sparsity import two_of_four
from eqsat.tosa import dumps, loads
from tests.rules import cases
from tests.rules.test_grouped import lowered
from tests.tensor.test_sparsity import blocks
from tests.term import Term


def of_groups(x: Term, groups: int, size: int, w_zp: int = 0) -> Any:
    """A convolution with weights that are zero outside the blocks of groups."""
    return cases.narrowed(x.conv(blocks(groups, size, 2), np.arange(groups * size), in_zp=3, w_zp=w_zp))


def reordered(x: Term) -> Any:
    return cases.convolved(cases.shuffled(x), 5, 1, 1, in_zp=3)


TABLE = """
channels-in-turn    INT8[1,3,3,8]    of_groups(x, 2, 4)  matches == 1
channels-in-turn    INT8[1,3,3,12]   of_groups(x, 3, 4)  matches == 1
channels-in-turn    INT8[1,3,3,16]   of_groups(x, 4, 4)  matches == 1
- channels-in-turn  INT8[1,3,3,8]    of_groups(x, 1, 8)              # cannot be sparse
- channels-in-turn  INT8[1,3,3,6]    of_groups(x, 2, 3)
- channels-in-turn  INT8[1,3,3,8]    of_groups(x, 2, 4, w_zp=1)
order-slice move-move    INT8[1,2,3,12]   reordered(x.part(start, 4, 3))  # a run of channels
- order-slice move-move  INT8[1,2,3,16]   reordered(x.part(2, 4, 3))
- order-slice move-move  INT8[1,2,3,16]   reordered(x.part(0, 6, 3))
- order-slice move-move  INT8[1,2,3,16]   reordered(cut(x, (0, 0, 0, 4), (1, 1, 3, 4)))
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(globals(), TABLE, start=[0, 4, 8])


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
