"""Terms against the op table: at an input, functions in normal form and the limits that are known of them are what the
integers are."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.checking.random_graphs import random_graph
from eqsat.proof.counterexample import defined_outputs
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from tests.proof.concrete import Opaque, outputs_at
from tests.sweeps import some

#: Of the samples that are drawn: low, high, edges, uniform, impulses, some of each.
_TAKEN = (0, 1, 2, 3, 5, 9)


def agree(graph: TensorGraph) -> int:
    """On how many samples the terms were compared; all of them agree."""
    compared = 0
    drawn = samples(domains(graph), max(_TAKEN) + 1)
    for inputs in (drawn[k] for k in _TAKEN):
        expected = defined_outputs(graph, inputs)
        try:
            found = outputs_at(graph, inputs) if expected is not None else []
        except Opaque:
            continue
        for x, y in zip(found, expected or []):
            assert np.array_equal(x, y.astype(np.int64))
            compared += 1
    return compared


@pytest.mark.parametrize("first", some(range(0, 224, 6), 4))
def test_terms_are_what_the_op_table_says(first: int) -> None:
    assert sum(agree(random_graph(seed)) for seed in range(first, first + 6)) > 12
