"""The shape in which Vela makes few commands of a broadcast.

Vela gives an elementwise operator that broadcasts a command for each index of the axes in front of the last three, and
into several commands no TABLE or CLAMP fuses. Neighbouring axes along which all operands behave alike can be one: most
broadcasts then have three axes or fewer. Asked of Vela 5.1 and 5.2 on U55, U65 and U85
(`tests/target/test_broadcasts.py`): ADD of (64, 1, 1, 16, 33) and (1, 1, 1, 16, 1) with a TABLE behind takes 65
commands and 115,214 cycles on U55-128, as (64, 16, 33) and (1, 16, 1) 1 and 50,688.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod

from eqsat.tensor.types import Shape

#: Axes of one command.
_AXES = 3


def commands(shapes: Sequence[Shape]) -> int:
    """How many commands Vela makes of an elementwise operator on operands of these shapes; with one element nothing is
    broadcast."""
    result = _broadcast(shapes)
    alike = all(s == result or prod(s) == 1 for s in shapes)
    return 1 if alike else prod(result[:-_AXES])


def merged(shapes: Sequence[Shape]) -> list[Shape] | None:
    """The shapes of the operands in which fewer commands do the same, or None: axes of size 1 are left out, and
    neighbours along which the same operands are broadcast are one."""
    axes = [sizes for sizes in zip(*shapes, strict=True) if max(sizes) > 1]
    groups = [list(group) for _, group in groupby(axes, lambda sizes: [n == 1 for n in sizes])]
    found = [tuple(prod(sizes[k] for sizes in group) for group in groups) for k in range(len(shapes))]
    return found if commands(found) < commands(shapes) else None


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    return tuple(map(max, zip(*shapes, strict=True)))
