"""Ways to write one data movement in TOSA: chains of native transposes, between reshapes.

Vela decomposes a TRANSPOSE without hardware support by a selection sort of the axes.
This takes up to nine operators.
In a view as three axes H, W, C there are few native transposes; chains of them are cheaper (`native_chains.py`).
The price of a step is a closed form there; the cost model then chooses among the candidates.
"""

from __future__ import annotations

from dataclasses import replace

from eqsat.target.family import Family
from eqsat.target.native_chains import MOST_AXES, chains, step_cycles
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Steps, attrs_of

#: (shape, permutation) of each step of a chain.
TransposeSteps = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

#: Chains of one reordering from which a cost model chooses, at most.
_KEPT = 8
#: Cycles of such a chain, to those of the cheapest.
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
