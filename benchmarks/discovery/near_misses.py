"""Near misses: graphs that differ in one thing, which show where an equality holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, GraphError, attrs_of


def near_misses(graph: TensorGraph) -> Iterator[tuple[str, TensorGraph]]:
    """Yields (description, graph) with one thing changed.

    That is a size of its inputs, a parameter of a quantization, or a window.
    """
    for size in dict.fromkeys(d for i in graph.inputs for d in graph.nodes[i].shape if d > 1):
        for other in dict.fromkeys((size - 1, size + 1, size + 2, 2 * size)):
            made = resized(graph, size, other)
            if made is not None:
                yield f"{size} -> {other}", made
    for n in (n for n in graph.live() if OPS[graph.nodes[n].op].kind != "leaf"):
        for key, value in graph.nodes[n].attrs:
            for what, other in _others(key, value):
                made = _with(graph, n, key, other)
                if made is not None:
                    yield f"{key} of {graph.nodes[n].op} {what}", made


def _others(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if key in ("in_zp", "out_zp", "value"):
        yield "+ 1", (value[0] + 1,)
    elif key == "multiplier":
        yield "+ 1", (value[0] + 1, *value[1:])
    elif key == "shift":
        yield "+ 1", tuple(s + 1 for s in value)
    elif key in ("stride", "dilation") and value == (1, 1):
        yield "2", (2, 2)
    elif key == "pad" and not any(value):
        yield "1", (1, 1, 1, 1)


def _with(graph: TensorGraph, at: int, key: str, value: Any) -> TensorGraph | None:
    attrs = attrs_of({**dict(graph.nodes[at].attrs), key: value})
    return _again(graph, lambda size: size, lambda n: attrs if n == at else graph.nodes[n].attrs)


def resized(graph: TensorGraph, size: int, other: int) -> TensorGraph | None:
    """Returns the graph with `other` in place of each `size`, or None if that does not fit.

    Constants are repeated or cut.
    """

    def attributes(n: int) -> Attrs:
        node = graph.nodes[n]
        attrs = dict(node.attrs)
        for k, v in attrs.items():
            if k in ("shape", "size"):
                attrs[k] = tuple(other if d == size else d for d in v)
            elif k in ("multiplier", "shift") and len(v) == size > 1:
                attrs[k] = tuple(v[i % size] for i in range(other))
        return attrs_of(attrs)

    return _again(graph, lambda d: other if d == size else d, attributes)


def _again(graph: TensorGraph, size: Callable[[int], int], attributes: Callable[[int], Attrs]) -> TensorGraph | None:
    """Returns the graph with other sizes of leaves and attributes, or None if they do not fit."""
    new, number = TensorGraph(output_names=list(graph.output_names)), dict[int, int]()
    try:
        for n in graph.live():
            node = graph.nodes[n]
            shape = tuple(map(size, node.shape))
            if node.op == "input":
                number[n] = new.add_input(node.attr("name"), shape, node.dtype)
            elif node.op == "const":
                data = node.attr("value").data
                for axis, d in enumerate(shape):
                    data = data.take([i % data.shape[axis] for i in range(d)], axis)
                number[n] = new.add_const(data, node.dtype)
            else:
                number[n] = new.add_with(node.op, [number[i] for i in node.inputs], attributes(n))
    except (GraphError, ValueError, IndexError):
        return None
    new.outputs = [number[o] for o in graph.outputs]
    return new
