"""Targets are what ExecuTorch hands to Vela, and their families records of traits that nobody asks for by name."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat.ground.worker import Worker
from eqsat.target import ACCELERATORS, FAMILIES, Family, Target, TargetError
from eqsat.target.families import U55, U85
from eqsat.vela.compile import compile_graph
from tests.command import ROOT
from tests.graphs import conv_graph

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
    assert found == {"eqsat/target/families.py", "cost_models/calibration.py"}


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
