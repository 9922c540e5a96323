"""Every set of commands.

A new family adds a folder beside the others and a line here.
"""

from __future__ import annotations

from eqsat.device.core.command_set import CommandSet
from eqsat.device.ethos_u55.command_set import ETHOS_U55
from eqsat.device.ethos_u85.command_set import ETHOS_U85
from eqsat.target import Family

_SETS = {
    1: ETHOS_U55,
    2: ETHOS_U85,
}


def command_set(family: Family) -> CommandSet:
    """Returns the set of commands of a family, by `Family.commands`."""
    return _SETS[family.commands]
