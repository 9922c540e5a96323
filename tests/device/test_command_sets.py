"""Who treats the commands of families differently knows those of every family."""

from __future__ import annotations

from cost_models import command_stream
from eqsat.device import command_sets
from eqsat.proof import binary
from eqsat.target import FAMILIES


def test_every_family_has_its_commands_their_price_and_their_proof() -> None:
    numbers = {f.commands for f in FAMILIES}
    assert set(command_sets._SETS) == set(command_stream._ISSUED) == set(binary._EXECUTIONS) == numbers
