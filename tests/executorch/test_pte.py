"""Delegates out of a .pte file, run."""

from __future__ import annotations

import numpy as np
import pytest
from executorch.backends.arm.ethosu import EthosUCompileSpec

from benchmarks.models import load
from eqsat.device.binary import read_binary
from eqsat.device.run import run
from eqsat.executorch.binaries import read
from eqsat.executorch.lowering import lower_with_session
from eqsat.executorch.pte import delegates
from eqsat.executorch.quantize import quantize
from eqsat.ground.files import InputError
from eqsat.ground.worker import Worker
from eqsat.options.options import Options
from eqsat.tosa.reference import run_reference


@pytest.mark.slow
def test_a_delegate_computes_what_its_graph_says(worker: Worker) -> None:
    spec = EthosUCompileSpec("ethos-u55-128")
    edge, session = lower_with_session(quantize(*load("pixel_shuffle"), spec), spec, options=Options(time_limit=2))
    buffer = edge.to_executorch().buffer
    (delegate,) = delegates(buffer)
    assert any("quantize_per_tensor" in op for op in delegate.outside)
    binary = read_binary(delegate.payload)
    (result,) = session.results
    assert result.binary_verified is True
    (t,) = binary.inputs
    x = np.random.default_rng(0).integers(-128, 128, t.bytes).astype(np.int8)
    (y,) = run(binary, [x])
    (want,) = run_reference(result.tosa, [x.reshape(_shape(result.tosa))], worker)
    assert np.array_equal(y.reshape(want.shape), want)
    assert [t.shape for t in (*read(buffer)[0].inputs, *read(buffer)[0].outputs)] == [(1, 3, 32, 32), (1, 3, 64, 64)]


def _shape(tosa: bytes) -> tuple[int, ...]:
    from eqsat.tosa import loads

    graph = loads(tosa)
    return graph.type(graph.inputs[0]).shape


@pytest.mark.parametrize("data", [b"", b"1234ET12" + bytes(100), bytes(64)])
def test_a_file_that_is_none_is_named(data: bytes) -> None:
    with pytest.raises(InputError, match="no .pte file"):
        delegates(data)
