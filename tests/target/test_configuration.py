"""System configurations and memory modes are checked before anything takes time, with what may be meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from eqsat.target import Target, TargetError
from eqsat.target.configuration import sections_of


def test_a_memory_mode_has_what_it_inherits() -> None:
    system, mode = sections_of(Target.of("ethos-u65-256", memory_mode="Dedicated_Sram_512KB"))
    assert mode["arena_cache_size"] == "524288" and mode["const_mem_area"] == "Axi1"
    assert system["core_clock"] == "1e9"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"memory_mode": "Sram_only"}, "no memory mode 'Sram_only': use one of .* \\(did you mean Sram_Only\\?\\)"),
        ({"memory_mode": "x"}, "Arm/vela.ini has no memory mode 'x': use one of Sram_Only, "),
        ({"system_config": "Ethos_U55"}, "no system configuration 'Ethos_U55': use one of .* \\(did you mean "),
        ({"system_config": "Ethos_U65_High_End"}, "is of another NPU than ethos-u55-128: use Ethos_U55_"),
        ({"memory_mode": "Dedicated_Sram"}, "Dedicated_Sram is not for ethos-u55-128: use Shared_Sram or Sram_Only"),
        ({"config": "none.ini"}, "the Vela config file none.ini does not exist"),
    ],
)
def test_what_cannot_be_is_refused_with_what_may_be_meant(given: dict[str, str], said: str) -> None:
    with pytest.raises(TargetError, match=said):
        sections_of(Target.of("ethos-u55-128", **given))


BOARD = """[System_Config.Board]
core_clock=4e8
inherit=System_Config.Base
[System_Config.Base]
core_clock=1e8
axi0_port=Sram
inherit=System_Config.Ports
[System_Config.Ports]
axi1_port=OffChipFlash
[Memory_Mode.Mine]
const_mem_area=Axi1
"""


def of_board(text: str, place: Path) -> tuple[Mapping[str, str], Mapping[str, str]]:
    place.write_bytes(text.encode("latin-1"))
    return sections_of(Target.of("ethos-u55-128", system_config="Board", memory_mode="Mine", config=str(place)))


def test_a_file_of_the_user_may_have_names_of_its_own_and_has_what_it_inherits(tmp_path: Path) -> None:
    system, mode = of_board(BOARD, tmp_path / "board.ini")
    assert system == {"core_clock": "4e8", "axi0_port": "Sram", "axi1_port": "OffChipFlash"}
    assert mode == {"const_mem_area": "Axi1"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("=Axi1", "=Axi1\ninherit=Memory_Mode.Mine", "Memory_Mode.Mine inherits itself"),
        ("Ports\n[", "Board\n[", "System_Config.Board inherits itself"),
        ("Ports\n[", "None\n[", "No section: 'System_Config.None'"),
        ("[Memory_Mode.Mine]", "[System_Config.Base]", "section 'System_Config.Base' already exists"),
        ("4e8", "4%e8", "'%' must be followed by"),
        ("4e8", "\xff", "can't decode byte 0xff"),
        ("4e8", "0", "has core_clock=0 for Board: give a number above 0"),
        ("4e8", "fast", "has core_clock=fast for Board: give a number above 0"),
        ("4e8", "1\nSram_burst_length=nan", "has sram_burst_length=nan for Board"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=said):
        of_board(BOARD.replace(old, new), tmp_path / "board.ini")
