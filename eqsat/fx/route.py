"""How a movement is written in FX: as one permute between views, or for a quantized tensor as the NPU has it cheapest.

Vela decomposes a permute that it has no hardware for; `eqsat.staging` finds chains of native ones. Where a convolution
or the like stands at an end, the backend's own layout change is there to be cancelled: the chain then starts or ends
channels last.
"""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.target import Family
from eqsat.target.staging import reordering, step_cycles, ways, written
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape

#: ("permute", dims) or ("view", shape), in order.
Route = list[tuple[str, list[int]]]


def channels_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def to_last(shape: Shape) -> Move:
    """From channels first, of that shape, to channels last."""
    return Move.transpose(shape, channels_last(len(shape)))


def plain(m: Move) -> Route:
    """One permute at most, between views."""
    direct = m.direct()
    if not m.is_view and direct is not None:
        return [("permute", list(direct))]
    out: Route = []
    shape = m.in_shape
    if not m.is_view:
        squeezed, perm = m.squeezed()
        out += [("view", list(squeezed))] * (squeezed != shape) + [("permute", list(perm))]
        shape = tuple(squeezed[p] for p in perm)
    return out + [("view", list(m.out_shape))] * (shape != m.out_shape)


def staged(m: Move, element_bytes: int, family: Family, from_layout: bool, into_layout: bool) -> tuple[Route, bool]:
    """The cheapest chain by the closed form of `eqsat.staging`, and whether it ends with a layout change that the
    backend cancels.

    from_layout: the input comes channels first from an op that has it channels last; into_layout: such an op reads the
    result.
    """
    if m.is_view:
        return plain(m), False
    _, _, head, middle, tail = min(_options(m, element_bytes, family, from_layout, into_layout), key=lambda o: o[:2])
    route: Route = [("permute", list(channels_last(len(m.in_shape))))] if head else []
    for op, attrs in () if middle.is_identity else written(middle, _chain(middle, element_bytes, family)):
        values = dict(attrs)
        route.append(("permute", list(values["perms"])) if op == "transpose" else ("view", list(values["shape"])))
    return route + [("permute", list(channels_first(len(m.out_shape))))] * tail, tail


def _options(
    m: Move, element_bytes: int, family: Family, from_layout: bool, into_layout: bool
) -> Iterator[tuple[float, int, bool, Move, bool]]:
    """(cycles, layout changes, channels last at the start, what is left to do, channels last at the end)."""
    for head in (False, True)[: 1 + (from_layout and len(m.in_shape) > 2)]:
        for tail in (False, True)[: 1 + (into_layout and len(m.out_shape) > 2)]:
            middle = to_last(m.in_shape).inverse().then(m) if head else m
            middle = middle and (middle.then(to_last(m.out_shape)) if tail else middle)
            if middle is not None:
                yield _cycles(middle, element_bytes, family), head + tail, head, middle, tail


def _chain(m: Move, element_bytes: int, family: Family) -> tuple:
    if m.is_view:
        return ()
    sizes, perm = reordering(m)
    return ways(sizes, perm, element_bytes, family)[0]


def _cycles(m: Move, element_bytes: int, family: Family) -> float:
    steps = _chain(m, element_bytes, family)
    if any(len(shape) != 4 or shape[0] != 1 for shape, _ in steps):
        return float("inf")  # too many axes for the search: Vela decomposes it
    return sum(
        step_cycles(h, w, c, tuple(p - 1 for p in perm[1:]), element_bytes, family) for (_, h, w, c), perm in steps
    )
