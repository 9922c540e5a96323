"""Graphs that must never reach Vela: patterns that it accepts and gets wrong (reported for, or met with, executorch 1.5.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from eqsat.target import Family
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, Type
from eqsat.vela.facts import facts


def misplaced(op: str, operands: Sequence[Type], result: Type) -> bool:
    """Whether an operator breaks a guard wherever it is: INT48 sums may be read by a RESCALE alone."""
    return (
        op != "rescale"
        and OPS[op].kind not in ("leaf", "mac")
        and any(DType.of(t.dtype).only_rescaled for t in (*operands, result))
    )


def breaks_if_activated(op: str, attrs: Attrs, operands: Sequence[Type]) -> bool:
    """Whether Vela mixes up the images of an operator where it fuses an activation into it: pointwise CONV2Ds that keep the positions."""
    if op != "conv2d" or operands[0].shape[0] == 1 or not facts().images_mixed_up:
        return False
    more = dict(attrs)
    return operands[1].shape[1:3] == more["stride"] == (1, 1) and not any(more["pad"])


def rescales_to_zeros(op: str, operands: Sequence[Type], result: Type, family: Family) -> bool:
    """Whether a device of the family may give zeros for an operator: a RESCALE from INT32 to INT32."""
    return family.zeroed_rescales and op == "rescale" and all(DType.of(t.dtype).is_wide for t in (operands[0], result))


def violations(graph: TensorGraph, family: Family) -> list[str]:
    """What in a graph for a family breaks a guard, in words, one for each place."""
    readers = graph.readers()
    out = ["convolutions of equal weights and scales with other biases (Vela gives them the first one's)"] * _mixed_up(
        graph, readers
    )
    for n, reading in readers.items():
        node = graph.nodes[n]
        operands = [graph.type(i) for i in node.inputs]
        if breaks_if_activated(node.op, node.attrs, operands) and _activated(graph, readers, n):
            out.append("a pointwise convolution of several images with an activation behind it (Vela mixes them up)")
        if rescales_to_zeros(node.op, operands, graph.type(n), family):
            out.append("RESCALE from INT32 to INT32 (Vela emits zeros on U55)")
        if family.zeroed_rescales and node.op == "rescale" and node.dtype == "INT32" and len(reading) > 1:
            out.append("one RESCALE to INT32 read by several operators (executorch issue 21415)")
        if (
            DType.of(node.dtype).only_rescaled
            and node.op != "const"
            and (len(reading) > 1 or any(graph.nodes[r].op != "rescale" for r in reading))
        ):
            out.append("an INT48 result read by anything but its one RESCALE")
    return out


def broken(graph: TensorGraph, source: TensorGraph, family: Family) -> list[str]:
    """The guards that a graph breaks more often than the one that it replaces."""
    return list((Counter(violations(graph, family)) - Counter(violations(source, family))).elements())


def _activated(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> bool:
    """Whether a CLAMP or a TABLE is behind an operator, itself or behind its RESCALE."""
    behind = [r for q in readers[n] for r in (q, *(readers[q] if graph.nodes[q].op == "rescale" else ()))]
    return any(graph.nodes[r].op in ("clamp", "table") for r in behind)


def _mixed_up(graph: TensorGraph, readers: Mapping[int, Sequence[int]]) -> bool:
    """Whether two operators with weights differ in nothing but biases among what Vela encodes: it finds encoded weights again by weights and
    scales (`equal_weights` on the page of defects; 5.1 and 5.2)."""
    biases: dict[tuple[Hashable, ...], Hashable] = {}
    for n, reading in readers.items():
        node = graph.nodes[n]
        if OPS[node.op].kind != "mac" or len(node.inputs) < 3:
            continue
        weights, bias = (graph.nodes[i] for i in node.inputs[1:3])
        if weights.op == bias.op == "const" and len(reading) == 1 and graph.nodes[reading[0]].op == "rescale":
            key = (node.op, weights.shape, weights.attrs, _scales(graph.nodes[reading[0]]))
            if biases.setdefault(key, bias.attrs) != bias.attrs:
                return True
    return False


def _scales(rescale: Node) -> tuple[float, ...]:
    """The factors of a RESCALE, exact: multipliers are below 2**31."""
    return tuple(m * 2.0**-s for m, s in zip(rescale.attr("multiplier"), rescale.attr("shift"), strict=True))
