"""ExecuTorch's lowering, once per model and target, to the graphs at eqsat's hook point."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.executorch.names import INT8
from eqsat.ground.files import InputError, read_bytes
from eqsat.target.accelerators import parse_target

if TYPE_CHECKING:
    from eqsat.executorch.loading import Layout


@contextmanager
def quiet() -> Iterator[None]:
    """Within it the warnings of ExecuTorch and PyTorch are silenced; they do not affect figures."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


@quiet()
def prepare(
    reference: str, target: str, quantization: str = INT8, layout: Layout | None = None
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Lowers a PyTorch model for a target, as `parse_target` takes it.

    layout: of inputs and outputs; None: as the model has them.
    Returns ({"0.explicit": TOSA, "0.stock": TOSA, ...} by delegate, side record).
    The side record has Vela's flags, seconds of the passes as within eqsat's lowering, why a stock graph is missing,
    and how the model was calibrated. `operators_outside` counts operators outside of delegates and the calls of these.
    `pte_frame_bytes` are bytes of a .pte besides command stream and weights, each rounded up to 16 bytes.
    Raises InputError, or what ExecuTorch raises.
    """
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.exir import to_edge_transform_and_lower

    from eqsat.bench.capture import capturing
    from eqsat.executorch.bookkeeping import less_bookkeeping
    from eqsat.executorch.loading import load_program

    compiled_for = parse_target(target)
    started = time.perf_counter()
    spec = EthosUCompileSpec(compiled_for.accelerator, memory_mode=compiled_for.value_of("--memory-mode"))
    program, calibration = load_program(reference, spec, quantization, layout)
    quantized = time.perf_counter()
    partitioner = EthosUPartitioner(spec)
    with capturing(partitioner) as found, less_bookkeeping():
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    lowered = time.perf_counter()
    if not found:
        raise InputError(f"no part of {reference} can run on {target}: the partitioner found no delegate")
    outside = sum(node.op == "call_function" for node in edge.exported_program().graph.nodes)
    pte = len(edge.to_executorch().buffer)
    files = {
        f"{i}.{kind}": tail.tosa
        for i, c in enumerate(found)
        for kind, tail in (("explicit", c.explicit), ("stock", c.stock))
        if tail.tosa is not None
    }
    tails = sum(c.stock.seconds for c in found), sum(c.explicit.seconds for c in found)
    seconds = {
        "load and quantize": quantized - started,
        "stock passes": tails[0],
        "explicit passes": tails[1],
        "lowering": lowered - quantized - sum(tails) - sum(c.vela_seconds for c in found),
    }
    payloads = [c.binary_bytes for c in found if c.binary_bytes is not None]
    return files, {
        "flags": list(compiled_for.flags),
        "seconds": {k: round(v, 3) for k, v in seconds.items()},
        "stock_errors": [c.stock.error for c in found],
        "calibration": calibration,
        "operators_outside": outside,
        "pte_frame_bytes": pte - sum(payloads) if len(payloads) == len(found) else None,
    }


def as_given(path: Path, target: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Returns the graph and side record of a `.tosa` file, which needs no lowering. Raises InputError."""
    return {"0.explicit": read_bytes(path)}, {
        "flags": list(parse_target(target).flags),
        "seconds": {},
        "stock_errors": ["a .tosa file has no stock graph"],
        "calibration": "",
        "operators_outside": 0,
        "pte_frame_bytes": None,
    }
