"""Rows of Vela's table, and their form in JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eqsat.tosa.locations import Origin
from eqsat.vela.table import Row

ROW = Row("Conv2D", "n3/1", 120, 100, 4096, 90, 80, 3072, 64, 16, "n3")
TOLD = {"operator": "Conv2D", "name": "n3/1", "op_cycles": "120", "npu_cycles": "100", "mac_count": "4096"} | {
    "corrected": 90,
    "busy_cycles": 80,
    "sram_bytes": 3072,
    "weight_bytes": 64,
    "command_bytes": 16,
    "source": "n3",
}


def test_a_record_has_velas_columns_as_text() -> None:
    assert ROW.record() == TOLD and list(ROW.record()) == list(TOLD)


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        replace(ROW, source=None),
        replace(ROW, mac_cycles=1.5, ideal=2.0, waiting=0, origins=()),
        replace(ROW, source="", origins=(Origin("conv", "layers.0", "torch.nn.Conv2d", 6), Origin("relu"))),
    ],
)
def test_a_record_is_read_as_it_was(row: Row) -> None:
    assert Row.read(json.loads(json.dumps(row.record()))) == row


@pytest.mark.parametrize("damaged", [{}, {**TOLD, "op_cycles": "many"}, {**TOLD, "new": 1}, [], "row"])
def test_damage_is_found(damaged) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Row.read(damaged)
