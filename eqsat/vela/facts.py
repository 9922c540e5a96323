"""What differs between versions of Vela in its estimate and is not asked of it at run time: one table, which
`tests/vela/test_facts.py` holds against the Vela that is installed, so that a version of which it is not true is found
out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from eqsat.ground.versions import versions

#: The package's name on PyPI.
PACKAGE = "ethos-u-vela"
#: Its first two numbers, as (5, 2).
Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """table_by_default: U55 and U65 price an operator
    without an activation as one with a TABLE (`activationPerfIndex` in ethos_u55_performance.cpp); so a CLAMP that does
    nothing makes the one before it cheaper. free_resize: on U85 a RESIZE takes the NPU no cycle, only what it reads and
    writes counts. joined_writes: on U85, too, a burst has what all cores write side by side (`Family.joined_writes`).
    broadcasts_by_element: U55 and U65 charge an elementwise operator one read for each element of its result for an
    operand that broadcasts (MeasureElementAccess in ethos_u55_performance.cpp), which `broadcasts.py` corrects.
    pieces_as_wholes: each piece of a dilated convolution is charged as a whole one, which `pieces.py` corrects.
    copies_charged_again: each operator that shares weights in SRAM is charged the copy, which `staging.py` corrects."""

    table_by_default: bool
    free_resize: bool
    joined_writes: bool
    broadcasts_by_element: bool
    pieces_as_wholes: bool
    copies_charged_again: bool


#: By the first version that they are true of.
KNOWN = {
    (5, 1): Facts(
        table_by_default=True,
        free_resize=True,
        joined_writes=True,
        broadcasts_by_element=True,
        pieces_as_wholes=True,
        copies_charged_again=True,
    ),
    (5, 2): Facts(
        table_by_default=False,
        free_resize=False,
        joined_writes=False,
        broadcasts_by_element=True,
        pieces_as_wholes=True,
        copies_charged_again=True,
    ),
}


def version() -> str:
    """The version of the Vela that is installed, as PyPI writes it; "absent" without one."""
    return versions([PACKAGE])[PACKAGE]


def numbers(version: str) -> Version:
    """(5, 2) of "5.2.0"; () of what has no numbers, which is older than all."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def facts_of(version: str) -> Facts:
    """Those of the newest version that is known and not newer; of one that is older than all the first."""
    return KNOWN[max((v for v in KNOWN if v <= numbers(version)), default=min(KNOWN))]


@cache
def facts() -> Facts:
    """Those of the Vela that is installed."""
    return facts_of(version())
