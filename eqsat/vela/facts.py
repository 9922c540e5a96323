"""Differences between versions of Vela in its estimate that cannot be asked of it at run time.

They are one table.
`tests/vela/test_facts.py` checks it with the installed Vela.
So a new version with other facts is noticed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from eqsat.ground.versions import versions

#: The package's name on PyPI.
PACKAGE = "ethos-u-vela"
#: The first two numbers of a version, such as (5, 2).
Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """The behaviour of one version of Vela.

    table_by_default: on U55 and U65 an operator without an activation is priced like one with a
        TABLE (`activationPerfIndex` in ethos_u55_performance.cpp)

    With `table_by_default` a CLAMP that does nothing makes the operator before it cheaper.
    What every known version charges for nothing is no fact of one: `broadcasts.py`, `pieces.py`, `staging.py`.
    """

    table_by_default: bool


#: {the first version of which they are true: facts}.
KNOWN = {
    (5, 1): Facts(table_by_default=True),
    (5, 2): Facts(table_by_default=False),
}


def version() -> str:
    """Returns the installed version of Vela, as PyPI writes it; "absent" if there is none."""
    return versions([PACKAGE])[PACKAGE]


def numbers(version: str) -> Version:
    """Returns (5, 2) for "5.2.0".

    Returns () for a text without numbers, which is older than all versions.
    """
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def facts_of(version: str) -> Facts:
    """Returns the facts of the newest known version up to this one.

    For versions older than all, returns those of the oldest.
    """
    return KNOWN[max((v for v in KNOWN if v <= numbers(version)), default=min(KNOWN))]


@cache
def facts() -> Facts:
    """Returns the facts of the installed Vela."""
    return facts_of(version())
