"""Ways to write one data movement in TOSA: chains of native transposes, between reshapes.

Vela decomposes a TRANSPOSE without hardware support by a selection sort of the axes, into up to nine operators.
Chains of native transposes are cheaper. A native transpose views a tensor as three axes H, W, C, each made of
neighbouring axes of the tensor, so it leads from one order of the axes to another one.
The orders of up to six axes, and the native transposes between them, are tables that are made once.
A closed form estimates the price of each step; the cost model then chooses among the cheapest chains.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, groupby, permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from eqsat.target.family import HWC, Family
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape, Steps, attrs_of

#: ((H, W, C), native permutation) of each step of a chain.
NativeChain = tuple[tuple[HWC, tuple[int, ...]], ...]

#: Axes up to which chains are searched for.
MOST_AXES = 6
#: Native steps of a chain, at most.
_MAX_STEPS = 4
#: Ratio of the cycles per element of planes of depth 1 to those of deep ones, on U55 and U65 (measured: 3.9 to 4.1 by
#: the price of their commands on ethos-u55-128).
_PLANES = 4.0
#: Groups of axes: H, W and C.
_GROUPS = 3


def step_cycles(h: int, w: int, c: int, perm: tuple[int, ...], element_bytes: int, family: Family) -> float:
    """Returns the estimated cycles of one native transpose of [1, h, w, c]."""
    hwc = np.array([[h], [w], [c]])
    return float(_step_cycles(hwc, perm, element_bytes, family)[0])


def _step_cycles(
    hwc: NDArray[np.int64], perm: tuple[int, ...], element_bytes: int, family: Family
) -> NDArray[np.float64]:
    """Returns the estimated cycles of native transposes of several shapes.

    A pooling writes whole bricks of 16 channels, and deep inputs split into many blocks.
    Without poolings an exchange of H and W takes one command. Any other exchange takes a command for each element of
    the third axis, which copies a plane of depth 1, with an eighth of the channels that the NPU pools at a time.
    hwc: [3, shapes] the H, W and C of each.
    """
    t = family.transposes
    c, depth = hwc[2], hwc[perm[2]]
    if t.pooled:
        factor = -(-depth // 16) * 16 / depth * (np.maximum(1.0, c / 128) if perm != (1, 0, 2) else 1.0)
        commands = 1
    else:
        commands, factor = (1, 1.0) if perm == (1, 0, 2) else (hwc[next(a for a in range(3) if perm[a] == a)], _PLANES)
    cycles: NDArray[np.float64] = (
        t.start * commands + hwc.prod(axis=0) * t.per_byte * max(t.least_bytes, element_bytes) * factor
    )
    return cycles


@dataclass(frozen=True, eq=False, slots=True)
class _Steps:
    """All native transposes from each order of some axes.

    orders: the orders, of which the first is sorted.
    groups: [forms, axes] the group of each axis in a distinct form of a step: 0 for H, 1 for W, 2 for C.
    native: the number of each form's permutation among the native ones.
    form: [orders, steps] the number of the form of a step.
    following: [orders, steps] the number of the order after a step.
    """

    orders: list[tuple[int, ...]]
    groups: NDArray[np.intp]
    native: NDArray[np.intp]
    form: NDArray[np.intp]
    following: NDArray[np.intp]


@lru_cache
def _steps(n: int, native: tuple[tuple[int, int, int], ...]) -> _Steps:
    orders = list(permutations(range(n)))
    order = np.array(orders).reshape(len(orders), n)
    digits = n ** np.arange(n)[::-1]  # orders are sorted, so these numbers are
    numbers = order @ digits
    group_digits = _GROUPS**order
    codes, following = [], []
    for i, j in combinations(range(n + 1), 2):
        parts = range(i), range(i, j), range(j, n)
        code = sum(k * group_digits[:, list(part)].sum(axis=1) for k, part in enumerate(parts))
        for number, perm in enumerate(native):
            if (places := [place for p in perm for place in parts[p]]) != list(range(n)):
                codes.append(code * len(native) + number)
                following.append(np.searchsorted(numbers, order[:, places] @ digits))
    used, form = np.unique(np.array(codes), return_inverse=True)
    groups = used[:, None] // len(native) // _GROUPS ** np.arange(n) % _GROUPS
    return _Steps(
        orders, groups, used % len(native), form.reshape(len(codes), -1).T.copy(), np.array(following).T.copy()
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Priced:
    """The steps for axes of some sizes.

    hwc: [3, forms] the H, W and C of each form.
    cycles: [orders, steps] of each step.
    left: for 0 to `_MAX_STEPS` steps, the least cycles from each order to the sorted one; inf if that takes more.
    """

    hwc: NDArray[np.int64]
    cycles: NDArray[np.float64]
    left: list[NDArray[np.float64]]


@lru_cache(maxsize=128)
def _price(sizes: tuple[int, ...], element_bytes: int, family: Family) -> _Priced:
    known = _steps(len(sizes), family.transposes.native)
    hwc = np.array([np.where(known.groups == group, sizes, 1).prod(axis=1) for group in range(_GROUPS)])
    by_form = np.empty(len(known.native))
    for number, perm in enumerate(family.transposes.native):
        of_perm = known.native == number
        by_form[of_perm] = _step_cycles(hwc[:, of_perm], perm, element_bytes, family)
    cycles = by_form[known.form]
    left = [np.full(len(known.orders), np.inf)]
    left[0][0] = 0.0
    for _ in range(_MAX_STEPS):
        left.append(np.minimum(left[-1], (cycles + left[-1][known.following]).min(axis=1)))
    return _Priced(hwc, cycles, left)


@lru_cache(maxsize=4096)
def chains(
    sizes: tuple[int, ...], perm: tuple[int, ...], element_bytes: int, family: Family, keep: int
) -> tuple[NativeChain, ...]:
    """Returns the `keep` cheapest chains of native steps that reorder axes of `sizes` by `perm`.

    A* searches over the orders of the axes; its bound is the least cycles of the remaining steps.
    """
    if perm == tuple(range(len(perm))):
        return ((),)
    # axes are numbered by their place in the result
    start, sizes = tuple(perm.index(a) for a in range(len(perm))), tuple(sizes[a] for a in perm)
    native = family.transposes.native
    known, priced = _steps(len(sizes), native), _price(sizes, element_bytes, family)
    out: list[NativeChain] = []
    tick = 0
    heap: list[tuple[float, int, float, int, NativeChain]] = [(0.0, 0, 0.0, known.orders.index(start), ())]
    while heap and len(out) < keep:
        _, _, cost, order, path = heapq.heappop(heap)
        if order == 0:
            out.append(path)
            continue
        after, following = cost + priced.cycles[order], known.following[order]
        least = after + priced.left[_MAX_STEPS - len(path) - 1][following]
        for step in np.argsort(least, kind="stable")[:keep].tolist():
            if least[step] < np.inf:
                tick += 1
                form = known.form[order, step]
                h, w, c = priced.hwc[:, form].tolist()
                longer = (*path, ((h, w, c), native[known.native[form]]))
                entry = float(least[step]), tick, float(after[step]), int(following[step]), longer
                heapq.heappush(heap, entry)
    return tuple(out)


#: (shape, permutation) of each step of a chain.
TransposeSteps = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

#: Chains of one reordering from which a cost model chooses, at most.
_KEPT = 8
#: Ratio of the cycles of such a chain to those of the cheapest, at most.
_NEAR = 1.5


def reordering(m: Move) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns (sizes, perm): how `m` permutes its atomic axes, listed in input order.

    Movements that differ only in the views of their ends share it, and with it their price.
    """
    atoms = m.atoms()
    if atoms is None or len(atoms) > MOST_AXES:
        return m.squeeze()
    return replace(m, axes=tuple((a.size, a.in_stride) for a in atoms)).squeeze()


def ways(sizes: tuple[int, ...], perm: tuple[int, ...], element_bytes: int, family: Family) -> list[TransposeSteps]:
    """Returns chains of (shape, perm) for a reordering: natives, the cheapest first, or else the plain transpose."""
    found = chains(sizes, perm, element_bytes, family, _KEPT) if len(sizes) <= MOST_AXES else ()
    cycles = [sum(step_cycles(*hwc, native, element_bytes, family) for hwc, native in c) for c in found]
    near = [c for c, n in zip(found, cycles, strict=True) if n <= _NEAR * cycles[0]]
    return [tuple(((1, *hwc), (0, *(p + 1 for p in native))) for hwc, native in c) for c in near] or [((sizes, perm),)]


def write_steps(m: Move, transposes: TransposeSteps) -> Steps:
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


# The shapes in which Vela makes few commands of a broadcast (checked by `tests/target/test_broadcasts.py`).
#
# Vela makes a command of an elementwise operator that broadcasts for each index of the axes before the last three, and
# fuses no TABLE or CLAMP into several commands.
# Neighbouring axes along which all operands behave alike can be merged, so most broadcasts have at most three axes.
# For example, ADD of (64, 1, 1, 16, 33) and (1, 1, 1, 16, 1), followed by a TABLE, takes 65 commands and 115,214 cycles
# on U55-128. In the shapes (64, 16, 33) and (1, 16, 1) it takes one command and 50,688 cycles.

#: Axes of one command, at most.
_AXES = 3


def commands(shapes: Sequence[Shape]) -> int:
    """Returns how many commands Vela makes of an elementwise operator; one element does not count as broadcast."""
    result = tuple(map(max, zip(*shapes, strict=True)))
    alike = all(s == result or prod(s) == 1 for s in shapes)
    return 1 if alike else prod(result[:-_AXES])


def merge_axes(shapes: Sequence[Shape]) -> list[Shape] | None:
    """Returns the shapes of the operands for which Vela makes fewer commands, None if there are none."""
    axes = [sizes for sizes in zip(*shapes, strict=True) if max(sizes) > 1]
    groups = [list(group) for _, group in groupby(axes, lambda sizes: [n == 1 for n in sizes])]
    found = [tuple(prod(sizes[k] for sizes in group) for group in groups) for k in range(len(shapes))]
    return found if commands(found) < commands(shapes) else None
