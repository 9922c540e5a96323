"""The command set of Ethos-U55 and U65."""

from __future__ import annotations

from eqsat.device.core.command_set import CommandSet
from eqsat.device.ethos_u55 import text
from eqsat.device.ethos_u55.accesses import accesses, blocks
from eqsat.device.ethos_u55.commands import MAKERS
from eqsat.device.ethos_u55.execution import Execution
from eqsat.device.ethos_u55.registers import LAYOUTS
from eqsat.device.ethos_u55.shared_memory import no_room

ETHOS_U55 = CommandSet(
    layouts=LAYOUTS,
    makers=MAKERS,
    execution=Execution,
    accesses=accesses,
    blocks=lambda c, _: blocks(c),
    no_room=no_room,
    kind=text.kind,
    describe=text.describe,
    dependency=3,
)
