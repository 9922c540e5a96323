"""The command set of Ethos-U85."""

from __future__ import annotations

from eqsat.device.core.execution import CommandSet
from eqsat.device.ethos_u85.decoding import Decoder
from eqsat.device.ethos_u85.execution import Execution
from eqsat.device.ethos_u85.registers import LAYOUTS
from eqsat.device.ethos_u85.room import input_channels, no_room

ETHOS_U85 = CommandSet(
    layouts=LAYOUTS,
    decoder=Decoder,
    execution=Execution,
    buffers=lambda c, internal: (),
    input_channels=input_channels,
    no_room=no_room,
    dependency=7,
    tables=2,
)
