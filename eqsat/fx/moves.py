"""Data movement in ATen and the edge dialect: what each op is in the tensor language, by the name of
`eqsat.fx.aten.name`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from torch.fx import Node

from eqsat.fx.aten import arguments, is_copy, name, operand, overload, shape_of
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Shape

_VIEWS = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as")
_PACKED = ("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_chunk", "unsafe_split")

#: (graph, operands, arguments, shape of the result) -> node number.
Mover = Callable[[TensorGraph, Sequence[int], Mapping[str, Any], Shape], int]


def _transposed(g: TensorGraph, x: int, perm: Sequence[int]) -> int:
    return g.add("transpose", (x,), perms=tuple(perm))


def _view(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    return g.add("reshape", xs, shape=tuple(out))


def _permute(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    return _transposed(g, xs[0], [d % len(out) for d in a["dims"]])


def _swap(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    first, second = (a.get(f"dim{i}", a.get(f"axis{i}", i)) % len(out) for i in (0, 1))
    perm = list(range(len(out)))
    perm[first], perm[second] = second, first
    return _transposed(g, xs[0], perm)


def _movedim(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    source, to = ([d % len(out) for d in ([v] if isinstance(v, int) else v)] for v in (a["source"], a["destination"]))
    rest = iter(d for d in range(len(out)) if d not in source)
    placed = dict(zip(to, source, strict=True))
    return _transposed(g, xs[0], [placed[d] if d in placed else next(rest) for d in range(len(out))])


def _sliced(g: TensorGraph, x: int, dim: int, start: int, size: int) -> int:
    shape = g.nodes[x].shape
    return g.add(
        "slice",
        (x,),
        start=tuple(start if d == dim else 0 for d in range(len(shape))),
        size=tuple(size if d == dim else n for d, n in enumerate(shape)),
    )


def _slice(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    if a.get("step", 1) != 1:
        raise NotImplementedError("a slice with a step")
    dim = a["dim"] % len(out)
    start = a["start"] or 0
    n = g.nodes[xs[0]].shape[dim]
    return _sliced(g, xs[0], dim, max(0, start + n if start < 0 else start), out[dim])


def _narrow(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    dim = a["dim"] % len(out)
    return _sliced(g, xs[0], dim, a["start"] % g.nodes[xs[0]].shape[dim], a["length"])


def _select(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    shape = g.nodes[xs[0]].shape
    dim = a["dim"] % len(shape)
    return _view(g, [_sliced(g, xs[0], dim, a["index"] % shape[dim], 1)], a, out)


def _cat(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    return g.add("concat", xs, axis=a["dim"] % len(out))


def _stack(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    dim = a["dim"] % len(out)
    one = (*out[:dim], 1, *out[dim + 1 :])
    return g.add("concat", [g.add("reshape", (x,), shape=one) for x in xs], axis=dim)


def _pad(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    given = a["pad"]
    if min(given, default=0) < 0 or a.get("mode", "constant") != "constant":
        raise NotImplementedError("a pad that cuts or is not constant")
    pads = [0] * (2 * len(out))
    for k in range(len(given) // 2):
        d = len(out) - 1 - k
        pads[2 * d : 2 * d + 2] = given[2 * k : 2 * k + 2]
    return g.add("pad", xs, pads=tuple(pads), value=(float(a.get("value") or 0.0),))


def _repeat(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    shape = g.nodes[xs[0]].shape
    aligned = (1,) * (len(out) - len(shape)) + shape
    x = xs[0] if aligned == shape else g.add("reshape", xs, shape=aligned)
    return g.add("tile", (x,), multiples=tuple(n // d for n, d in zip(out, aligned, strict=True)))


def _flip(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    x = xs[0]
    for d in a["dims"]:
        x = g.add("reverse", (x,), axis=d % len(out))
    return x


def _shuffled(g: TensorGraph, x: int, split: Shape, perm: Sequence[int], out: Shape) -> int:
    return g.add("reshape", (_transposed(g, g.add("reshape", (x,), shape=split), perm),), shape=out)


def _pixel_shuffle(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    r, (*n, c, h, w) = a["upscale_factor"], g.nodes[xs[0]].shape
    return _shuffled(g, xs[0], (prod(n), c // r**2, r, r, h, w), (0, 1, 4, 2, 5, 3), out)


def _pixel_unshuffle(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    r, (*n, c, h, w) = a["downscale_factor"], g.nodes[xs[0]].shape
    return _shuffled(g, xs[0], (prod(n), c, h // r, r, w // r, r), (0, 1, 3, 5, 2, 4), out)


def _channel_shuffle(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    n, c, *rest = g.nodes[xs[0]].shape
    return _shuffled(g, xs[0], (n, a["groups"], c // a["groups"], prod(rest)), (0, 2, 1, 3), out)


MOVEMENT: dict[str, Mover] = {
    "permute": _permute,
    "transpose": _swap,
    "swapaxes": _swap,
    "swapdims": _swap,
    "t": _swap,
    "movedim": _movedim,
    "moveaxis": _movedim,
    **dict.fromkeys(_VIEWS, _view),
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    "cat": _cat,
    "concat": _cat,
    "stack": _stack,
    "constant_pad_nd": _pad,
    "pad": _pad,
    "expand": _repeat,
    "repeat": _repeat,
    "tile": _repeat,
    "flip": _flip,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "channel_shuffle": _channel_shuffle,
    "native_channel_shuffle": _channel_shuffle,
}


def is_packed(node: Node) -> bool:
    """True for ops that give a list of slices of their operand, read through getitem."""
    return node.op == "call_function" and name(node.target) in _PACKED


def is_movement(node: Node) -> bool:
    """True if the node only moves data: it is in `MOVEMENT`, or a getitem of a list of slices."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_packed(operand(node))
    return overload(node.target) is not None and (name(node.target) in MOVEMENT or is_packed(node) or is_copy(node))


def moves_elements(node: Node) -> bool:
    """True for movement that is neither a view nor a plain copy."""
    return is_movement(node) and not is_copy(node) and not is_packed(node) and name(node.target) not in _VIEWS


def sources(node: Node) -> list[Node]:
    """The tensors that a movement reads, in order; the list of slices' own operand for a getitem."""
    if node.target is operator.getitem:
        return [operand(operand(node))]
    a = arguments(node)
    return list(a["tensors"]) if "tensors" in a else [next(iter(node.all_input_nodes))]


def move(g: TensorGraph, node: Node, xs: Sequence[int]) -> int:
    """Adds a movement on operands `xs`. Raises NotImplementedError, GraphError or KeyError for a form that is not
    modelled."""
    if is_copy(node):
        return xs[0]
    if node.target is operator.getitem:
        split, index = operand(node), node.args[1]
        assert isinstance(index, int)
        parts, dim = split.meta["val"], arguments(split).get("dim", 0)
        if name(split.target) == "unbind":
            return _select(g, xs, {"dim": dim, "index": index}, shape_of(node))
        dim %= len(shape_of(node))
        return _sliced(g, xs[0], dim, sum(p.shape[dim] for p in parts[:index]), parts[index].shape[dim])
    return MOVEMENT[name(node.target)](g, xs, arguments(node), shape_of(node))
