"""Targets are what ExecuTorch hands to Vela, and their families records of traits that nobody asks for by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pytest
from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat.ground.worker import Worker
from eqsat.target import ACCELERATORS, FAMILIES, Family, Target, TargetError
from eqsat.target.accelerators import sections_of
from eqsat.target.family import U55, U85
from tests.command import ROOT
from tests.graphs import compile_graph, conv_graph

BY_FAMILY = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)


@BY_FAMILY
def test_traits_are_consistent(family: Family) -> None:
    t = family.transposes
    assert set(t.native) <= set(permutations(range(3))) - {(0, 1, 2)} and set(t.doubled) <= set(t.native)
    # chains of natives are searched from both ends (`staging.chains`)
    assert {tuple(p.index(i) for i in range(3)) for p in t.native} == set(t.native)
    assert all(name.startswith(f"ethos-{family.name}-") for name in family.cores)


def test_every_accelerator_is_of_one_family() -> None:
    assert sum(len(f.cores) for f in FAMILIES) == len(ACCELERATORS) == len(set(ACCELERATORS))
    assert len({f.name for f in FAMILIES}) == len(FAMILIES)
    for name in ACCELERATORS:
        assert Target(name, ()).family.cores[name] is Target(name, ()).core


def test_native_permutations_of_nhwc() -> None:
    assert U85.transposes.native_of((0, 2, 3, 1)) == (1, 2, 0)
    assert U55.transposes.native_of((0, 2, 3, 1)) is None  # it takes two
    for perms in ((0, 1, 2, 3), (1, 0, 2, 3), (0, 2, 1), (0, 1, 2, 4, 3)):
        assert U85.transposes.native_of(perms) is None


def test_families_are_named_in_tables_only() -> None:
    """Anywhere else than in the two tables a name would be a test for it."""
    named = re.compile(rf"""["'](?:{"|".join(f.name for f in FAMILIES)})["']""")
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("eqsat", "cost_models", "extraction")
        for path in (ROOT / package).rglob("*.py")
        if named.search(path.read_text())
    }
    assert found == {"eqsat/target/family.py", "cost_models/calibration.py"}


@pytest.mark.parametrize("name", ACCELERATORS)
def test_without_executorch_it_is_the_same(name: str) -> None:
    assert Target.of(name).accelerator == name and name.startswith(f"ethos-{Target.of(name).family.name}-")
    assert Target.of(name) == Target.of(name.title()) == Target.from_compile_spec(EthosUCompileSpec(name))
    system, mode = "Ethos_U55_Deep_Embedded", "Sram_Only"
    spec = EthosUCompileSpec(name, system, mode, config_ini="mine.ini")
    ours = Target.of(name, system_config=system, memory_mode=mode, config="mine.ini")
    assert ours == Target.from_compile_spec(spec)


@pytest.mark.parametrize("name", ["", "ethos-u85", "u85-256", "ethos-u99-1"])
def test_an_unknown_target_names_the_known_ones(name: str) -> None:
    with pytest.raises(TargetError, match="ethos-u85-256") as e:
        Target.of(name)
    assert repr(name) in str(e.value)
    for flag, said in ((f"--accelerator-config={name}", ""), ("--optimise=Size", "accelerator-config")):
        with pytest.raises(TargetError, match=said):
            Target.from_flags([flag])


def test_configs_are_kept_and_output_paths_dropped(worker: Worker) -> None:
    spec = EthosUCompileSpec(
        "ethos-u55-128", "Ethos_U55_Deep_Embedded", "Sram_Only", extra_flags=["--output-dir=here", "--verbose-graph"]
    )
    target = Target.from_compile_spec(spec)
    assert target == Target.of("ethos-u55-128", system_config="Ethos_U55_Deep_Embedded", memory_mode="Sram_Only")
    assert "--memory-mode=Sram_Only" in target.flags and not any("here" in f or "verbose" in f for f in target.flags)
    default = compile_graph(conv_graph(), Target.of("ethos-u55-128"), worker)
    assert compile_graph(conv_graph(), target, worker).memory.keys() != default.memory.keys()


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
