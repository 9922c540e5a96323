"""Ways to write one data movement in TOSA: chains of native transposes, between reshapes.

Vela decomposes a TRANSPOSE without hardware support by a selection sort of the axes.
This takes up to nine operators.
In a view as three axes H, W, C there are few native transposes.
A shortest path over the orders of the atomic axes finds cheaper chains of them.
The price of a step is a closed form here; the cost model then measures the candidates.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import prod

from eqsat.target.family import HWC, Family
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Steps, attrs_of

#: An order of axes.
Order = tuple[int, ...]
#: (shape, permutation) of each step of a chain.
TransposeSteps = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
#: ((H, W, C), native permutation) of each step of a chain.
NativeChain = tuple[tuple[HWC, tuple[int, ...]], ...]

#: Atomic axes up to which chains are searched for.
_MAX_ATOMS = 6
#: Native steps of a chain, at most.
_MAX_STEPS = 4


def step_cycles(h: int, w: int, c: int, perm: tuple[int, ...], element_bytes: int, family: Family) -> float:
    """Returns the estimated cycles of one native transpose of [1, h, w, c].

    Fitted to Vela 5.1 on INT8 tensors of 3k-50k elements.
    A pooling writes whole bricks of 16 channels, and deep inputs split into many blocks.
    A transpose bound by memory wastes bandwidth if the innermost axis is short.
    """
    depth = (h, w, c)[perm[2]]
    if family.transposes.pooled:
        factor = -(-depth // 16) * 16 / depth * (max(1.0, c / 128) if perm != (1, 0, 2) else 1.0)
    else:
        factor = 1.0 if min(c, depth) * element_bytes >= 16 else 8 / 3
    start, per_element = _ideal_step(element_bytes, family)
    return start + h * w * c * per_element * factor


def _ideal_step(element_bytes: int, family: Family) -> tuple[float, float]:
    """Returns (start cycles, cycles per element) of a native transpose whose shape wastes nothing."""
    t = family.transposes
    return t.start, t.per_byte * max(t.least_bytes, element_bytes)


@lru_cache(maxsize=4096)
def chains(
    sizes: tuple[int, ...], perm: tuple[int, ...], element_bytes: int, family: Family, keep: int = 4
) -> tuple[NativeChain, ...]:
    """Returns the `keep` cheapest chains of native steps that reorder axes of `sizes` by `perm`.

    A* searches over the orders of the axes.
    Its bound is the least number of remaining steps, each at its ideal cycles.
    """
    goal = tuple(range(len(sizes)))  # axes are numbered by their place in the result
    start, sizes = tuple(perm.index(a) for a in goal), tuple(sizes[a] for a in perm)
    steps_left = _distances(len(sizes), family)
    ideal, per_element = _ideal_step(element_bytes, family)
    ideal += prod(sizes) * per_element
    done: dict[tuple[int, ...], int] = {}
    out: list[NativeChain] = []
    heap: list[tuple[float, int, float, tuple[int, ...], NativeChain]] = [(0.0, 0, 0.0, start, ())]
    tick = 0
    while heap and len(out) < keep:
        _, _, cost, order, path = heapq.heappop(heap)
        if order == goal:
            out.append(path)
            continue
        if done.get(order, 0) >= keep:
            continue
        done[order] = done.get(order, 0) + 1
        for groups, native, following in _moves(order, family):
            left = steps_left.get(following, _MAX_STEPS)
            if len(path) + 1 + left > _MAX_STEPS:
                continue
            tick += 1
            h, w, c = (prod(sizes[a] for a in g) for g in groups)
            shape = h, w, c
            so_far = cost + step_cycles(*shape, native, element_bytes, family)
            heapq.heappush(heap, (so_far + left * ideal, tick, so_far, following, (*path, (shape, native))))
    return tuple(out)


@lru_cache
def _distances(n: int, family: Family) -> dict[Order, int]:
    """Returns {order of n axes: least number of native steps that sort it}; inverses of native ones are native."""
    goal = tuple(range(n))
    found, front = {goal: 0}, [goal]
    for steps in range(1, _MAX_STEPS + 1):
        front = list(dict.fromkeys(f for order in front for _, _, f in _moves(order, family) if f not in found))
        found.update(dict.fromkeys(front, steps))
    return found


@lru_cache(maxsize=4096)
def _moves(order: Order, family: Family) -> tuple[tuple[tuple[Order, Order, Order], Order, Order], ...]:
    """Returns (axes in H, W and C, native permutation, order after it) of every native step from an order."""
    found = []
    for i, j in combinations(range(len(order) + 1), 2):
        groups = order[:i], order[i:j], order[j:]
        for native in family.transposes.native:
            following = groups[native[0]] + groups[native[1]] + groups[native[2]]
            if following != order:
                found.append((groups, native, following))
    return tuple(found)


def reordering(m: Move) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns (sizes, perm): how `m` permutes its atomic axes, listed in input order.

    Movements that differ only in the views of their ends share it, and with it their price.
    """
    atoms = m.atoms()
    if atoms is None or len(atoms) > _MAX_ATOMS:
        return m.squeezed()
    return replace(m, axes=tuple((a.size, a.in_stride) for a in atoms)).squeezed()


def ways(sizes: tuple[int, ...], perm: tuple[int, ...], element_bytes: int, family: Family) -> list[TransposeSteps]:
    """Returns candidate chains of (shape, perm) for a reordering.

    These are chains of natives, or else the plain transpose, which Vela decomposes by itself.
    """
    found = chains(sizes, perm, element_bytes, family) if len(sizes) <= _MAX_ATOMS else ()
    return [tuple(((1, *hwc), (0, *(p + 1 for p in native))) for hwc, native in c) for c in found] or [((sizes, perm),)]


def written(m: Move, transposes: TransposeSteps) -> Steps:
    """Returns the TOSA steps of a chain, with the reshapes between them and at its ends."""
    steps, current = [], m.in_shape
    for shape, perm in transposes:
        if current != shape:
            steps.append(("reshape", attrs_of({"shape": shape})))
        steps.append(("transpose", attrs_of({"perms": perm})))
        current = tuple(shape[p] for p in perm)
    if current != m.out_shape:
        steps.append(("reshape", attrs_of({"shape": m.out_shape})))
    return tuple(steps)
