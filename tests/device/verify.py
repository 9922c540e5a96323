"""Whether the binary that Vela makes of a graph computes what the reference model does."""

from __future__ import annotations

from eqsat.device.verification import Verdict, check
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import loads
from eqsat.tosa.reference import run_samples
from eqsat.vela.compile import Estimate, compile_tosa


def verify(buffer: bytes, target: Target, via: Pool | Worker, samples_wanted: int = 6) -> Verdict:
    """Compiles a graph and compares its binary with the reference model.

    Raises WorkerError if Vela or the reference model refuses the graph, and TosaError if it cannot be read.
    """
    graph = loads(buffer, "the graph")
    try:
        raw = _compile(buffer, target, via).raw
    except WorkerError as e:
        if "its binary has only" not in str(e):
            raise
        return Verdict(False, str(e))
    drawn = samples(domains(graph), samples_wanted)
    return check(graph, raw, via, drawn, lambda: run_samples(buffer, drawn, via))


def _compile(buffer: bytes, target: Target, via: Pool | Worker) -> Estimate:
    """Compiles a graph; a worker that dies refuses it, too, as it does when Vela recurses without end."""
    try:
        return compile_tosa(buffer, target, via)
    except WorkerError as e:
        if e.refused or e.killed or e.stopped:
            raise
        raise WorkerError(f"Vela does not survive the graph: {e}", refused=True) from e
