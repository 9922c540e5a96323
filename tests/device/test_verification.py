"""Graphs that have no binary to compare."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from eqsat.device.verification import verify
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.workers.worker import Worker, WorkerError


@pytest.mark.slow
@pytest.mark.skipif(
    not version("ethos-u-vela").startswith(("5.1", "5.2")), reason="not tried with this version of Vela"
)
def test_a_graph_that_vela_does_not_survive_is_refused(worker: Worker) -> None:
    """Vela's recursion has no end where REDUCE_MIN of five axes is read with four."""
    g = TensorGraph()
    x = g.add_with("reduce_min", [g.add_input("x", (1, 2, 12, 4, 2), "INT16")], makers.extremum(2))
    g.outputs, g.output_names = [g.add("reshape", (x,), shape=(1, 2, 4, 2))], ["y"]
    with pytest.raises(WorkerError, match="does not survive the graph") as e:
        verify(dumps(g), Target.of("ethos-u55-128"), worker, 1)
    assert e.value.refused
