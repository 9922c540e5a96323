"""Closed forms of TRANSPOSE: a native one, or the swaps of axes that Vela 5 makes of any other."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from cost_models import estimator
from cost_models.blocks import as_shape
from cost_models.machine import Place, hardware_of
from cost_models.operation import spatial
from eqsat.target import Target
from eqsat.tensor.types import Type

#: {permutation of three axes: the two native ones that Vela makes of it}, by the commands of 5.2.
_SWAPS = {(1, 2, 0): ((1, 0, 2), (0, 2, 1)), (2, 0, 1): ((2, 1, 0), (0, 2, 1))}


@lru_cache(maxsize=65536)
def transpose(target: Target, t: Type, perm: tuple[int, ...], size: int, place: Place) -> float:
    """Returns the cycles of a TRANSPOSE of `t` by `perm`.

    size: bytes of an element.
    """
    machine = hardware_of(target)
    natives = machine.family.transposes.native
    written = _native_as_written(t, perm)
    if written in natives:
        return estimator.transpose(machine, spatial(t.shape), written, size, place)
    if written in _SWAPS:
        first, second = _SWAPS[written]
        between = as_shape(spatial(t.shape)[p] for p in first)
        swaps = (spatial(t.shape), first), (between, second)
        return sum(estimator.transpose(machine, shape, swap, size, place) for shape, swap in swaps)
    sizes, order = _merged(t.shape, perm)
    match sizes:
        case () | (_,):
            return 0.0
        case (h, w):
            by_rows = estimator.transpose(machine, (1, h, w), (0, 2, 1), size, place)
            return min(by_rows, estimator.transpose(machine, (h, w, 1), (1, 0, 2), size, place))
        case (h, w, c) if order in natives:
            return estimator.transpose(machine, (h, w, c), order, size, place)
    more = sum(i != p for i, p in enumerate(order)) - 1
    *outer, w, c = sizes
    return 2 * more * estimator.transpose(machine, (prod(outer), w, c), (1, 0, 2), size, place)


def _native_as_written(t: Type, perm: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns `perm` as a permutation of (H, W, C), None if axes in front of these move or have several elements."""
    outer = len(perm) - 3
    if not 0 <= outer <= 1 or prod(t.shape[:outer]) != 1 or perm[:outer] != tuple(range(outer)):
        return None
    return tuple(p - outer for p in perm[outer:])


def _merged(shape: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns (sizes, permutation) without unit axes; axes that stay neighbours are merged."""
    axes = [a for a in range(len(perm)) if shape[a] > 1]
    groups: list[list[int]] = []
    for p in (p for p in perm if shape[p] > 1):
        if groups and axes.index(p) == axes.index(groups[-1][-1]) + 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    sources = sorted(range(len(groups)), key=lambda g: groups[g][0])
    sizes = tuple(prod(shape[a] for a in groups[g]) for g in sources)
    return sizes, tuple(sources.index(g) for g in range(len(groups)))
