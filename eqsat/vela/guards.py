"""Graphs that must never reach Vela: patterns that it accepts and gets wrong (reported for, or met with, executorch 1.5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type


def misplaced(op: str, operands: Sequence[Type], result: Type) -> bool:
    """Whether an operator breaks a guard wherever it is: INT48 sums may be read by a RESCALE alone."""
    return (
        op != "rescale"
        and OPS[op].kind not in ("leaf", "mac")
        and any(DType.of(t.dtype).only_rescaled for t in (*operands, result))
    )


def violations(graph: TensorGraph) -> list[str]:
    """What in `graph` breaks a guard, in words."""
    out = []
    readers = graph.readers()
    for n, reading in readers.items():
        node = graph.nodes[n]
        if node.op == "rescale":
            source = graph.nodes[node.inputs[0]]
            if node.dtype == "INT32" and source.dtype == "INT32":
                out.append("RESCALE from INT32 to INT32 (Vela emits zeros on U55)")
            if node.dtype == "INT32" and len(reading) > 1:
                out.append("one RESCALE to INT32 read by several operators (executorch issue 21415)")
        if (
            DType.of(node.dtype).only_rescaled
            and node.op != "const"
            and (len(reading) > 1 or any(graph.nodes[r].op != "rescale" for r in reading))
        ):
            out.append("an INT48 result read by anything but its one RESCALE")
    return out
