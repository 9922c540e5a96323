"""What is written down of Vela by version is true of the one that is installed; a failure tells that it differs."""

from __future__ import annotations

from itertools import permutations

import pytest

from eqsat.ground.worker import Pool
from eqsat.target import FAMILIES, Target
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.facts import is_table_by_default, version
from tests.graphs import compile_graph
from tests.term import graph


def activated(noop: bool) -> TensorGraph:
    """A convolution, its result clamped to the limits of INT8 or not at all: the same work."""
    made = (lambda x: x.layer(8).clamp(-128, 127)) if noop else (lambda x: x.layer(8))
    return graph("x:INT8[1,32,32,8]", made)


def transposed(order: tuple[int, ...]) -> TensorGraph:
    """H, W and C in an order."""
    perms = 0, *(p + 1 for p in order)
    return graph("x:INT8[1,6,40,48]", lambda x: x.clamp(-100, 90).transpose(*perms).clamp(-99, 80))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_of_the_activation_that_is_not_there(family, pool: Pool) -> None:
    """The trap of Vela 5.1, on U55 and U65; `tests/cost_models/test_traps.py` has that it is not fallen into."""
    for accelerator, core in family.cores.items():
        without, clamped = (compile_graph(activated(n), Target.of(accelerator), pool).cycles for n in (False, True))
        assert (clamped < without) == (is_table_by_default(version()) and core.table > core.byte), accelerator


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_of_native_transposes(family, pool: Pool) -> None:
    """One operator does them; any other reordering of H, W and C takes more."""
    target = Target.of(next(iter(family.cores)))
    for order in [p for p in permutations(range(3)) if p != (0, 1, 2)]:
        rows = compile_graph(transposed(order), target, pool).rows
        assert ([r.operator for r in rows].count("Transpose") == 1) == (order in family.transposes.native), order


def test_of_versions_that_are_not_known() -> None:
    """A newer one is like the newest that is known, an older one like the oldest; its last number tells nothing."""
    assert all(map(is_table_by_default, ("absent", "4.9.0", "5.1.3")))
    assert not any(map(is_table_by_default, ("5.2.0", "5.2.1rc1", "5.10.0", "7.0")))
