"""The shape in which Vela makes few commands of a broadcast.

Vela makes a command of an elementwise operator that broadcasts for each index of the axes in front of the last three.
No TABLE or CLAMP fuses into several commands.
Neighbouring axes along which all operands behave alike can be merged, so that most broadcasts have three axes or fewer.

`tests/target/test_broadcasts.py` checks it.
An example is ADD of (64, 1, 1, 16, 33) and (1, 1, 1, 16, 1) with a TABLE behind, on U55-128.
It takes 65 commands and 115,214 cycles.
In the shapes (64, 16, 33) and (1, 16, 1) it takes one command and 50,688 cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod

from eqsat.tensor.types import Shape

#: Axes of one command, at most.
_AXES = 3


def commands(shapes: Sequence[Shape]) -> int:
    """Returns the number of commands that Vela makes of an elementwise operator on these shapes.

    An operand of one element does not count as broadcast.
    """
    result = tuple(map(max, zip(*shapes, strict=True)))
    alike = all(s == result or prod(s) == 1 for s in shapes)
    return 1 if alike else prod(result[:-_AXES])


def merge_axes(shapes: Sequence[Shape]) -> list[Shape] | None:
    """Returns the shapes of the operands for which Vela makes fewer commands, None if there are none."""
    axes = [sizes for sizes in zip(*shapes, strict=True) if max(sizes) > 1]
    groups = [list(group) for _, group in groupby(axes, lambda sizes: [n == 1 for n in sizes])]
    found = [tuple(prod(sizes[k] for sizes in group) for group in groups) for k in range(len(shapes))]
    return found if commands(found) < commands(shapes) else None
