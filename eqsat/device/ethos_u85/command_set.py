"""The command set of Ethos-U85."""

from __future__ import annotations

from eqsat.device.core.command_set import CommandSet
from eqsat.device.ethos_u85 import text
from eqsat.device.ethos_u85.accesses import accesses, blocks, no_room
from eqsat.device.ethos_u85.decoding import MAKERS
from eqsat.device.ethos_u85.execution import Execution
from eqsat.device.ethos_u85.registers import LAYOUTS

ETHOS_U85 = CommandSet(
    layouts=LAYOUTS,
    makers=MAKERS,
    execution=Execution,
    accesses=lambda c, _: accesses(c),
    blocks=blocks,
    no_room=no_room,
    kind=text.kind,
    describe=text.describe,
    dependency=7,
    tables=2,
)
