"""Versions of Vela, and the difference between their estimates that Vela does not report at run time.

`tests/vela/test_facts.py` checks it with the installed Vela, so a new version with other facts is noticed.
"""

from __future__ import annotations

import re

from eqsat.ground.versions import versions

#: The package's name on PyPI.
PACKAGE = "ethos-u-vela"
#: The first two numbers of a version, such as (5, 2).
Version = tuple[int, ...]


def version() -> str:
    """Returns the installed version of Vela, as PyPI writes it; "absent" if there is none."""
    return versions([PACKAGE])[PACKAGE]


def numbers(version: str) -> Version:
    """Returns (5, 2) for "5.2.0", and () for a text without numbers, which is older than all versions."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def is_table_by_default(version: str) -> bool:
    """Whether on U55 and U65 an operator without an activation is priced like one with a TABLE.

    Then a CLAMP that does nothing makes the operator before it cheaper.
    Source: `activationPerfIndex` in ethos_u55_performance.cpp.
    """
    return numbers(version) < (5, 2)
