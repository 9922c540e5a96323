"""The command set of Ethos-U55 and U65."""

from __future__ import annotations

from eqsat.device.core.execution import CommandSet
from eqsat.device.ethos_u55.decoding import Decoder
from eqsat.device.ethos_u55.execution import Execution
from eqsat.device.ethos_u55.registers import LAYOUTS
from eqsat.device.ethos_u55.shared_memory import buffers, input_channels, no_room

ETHOS_U55 = CommandSet(
    layouts=LAYOUTS,
    decoder=Decoder,
    execution=Execution,
    buffers=buffers,
    input_channels=input_channels,
    no_room=no_room,
    dependency=3,
)
