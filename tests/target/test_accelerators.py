"""Targets are what ExecuTorch's compile spec hands to Vela."""

from __future__ import annotations

import pytest
from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat.ground.worker import Worker
from eqsat.target import ACCELERATORS, Target, TargetError
from eqsat.vela.compile import compile_graph
from tests.graphs import conv_graph


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_accelerator_compiles(name: str, worker: Worker) -> None:
    target = Target.of(name)
    assert target.accelerator == name and name.startswith(f"ethos-{target.family.name}-")
    assert compile_graph(conv_graph(), target, worker).cycles > 0


@pytest.mark.parametrize("name", ACCELERATORS)
def test_without_executorch_it_is_the_same(name: str) -> None:
    assert Target.of(name) == Target.from_compile_spec(EthosUCompileSpec(name))
    other = ("Ethos_U55_Deep_Embedded", "Sram_Only")
    spec = EthosUCompileSpec(name, *other, config_ini="mine.ini")
    assert Target.of(name, system_config=other[0], memory_mode=other[1], config="mine.ini") == Target.from_compile_spec(
        spec
    )


def test_names_in_any_case() -> None:
    assert Target.of("Ethos-U55-128") == Target.of("ethos-u55-128")


@pytest.mark.parametrize("name", ["", "ethos-u85", "u85-256", "ethos-u99-1"])
def test_an_unknown_target_names_the_known_ones(name: str) -> None:
    with pytest.raises(TargetError, match="ethos-u85-256") as e:
        Target.of(name)
    assert repr(name) in str(e.value)
    with pytest.raises(TargetError):
        Target.from_flags([f"--accelerator-config={name}"])


def test_flags_without_an_accelerator() -> None:
    with pytest.raises(TargetError, match="accelerator-config"):
        Target.from_flags(["--optimise=Size"])


def test_configs_are_kept_and_output_paths_dropped(worker: Worker) -> None:
    spec = EthosUCompileSpec(
        "ethos-u55-128", "Ethos_U55_Deep_Embedded", "Sram_Only", extra_flags=["--output-dir=here", "--verbose-graph"]
    )
    target = Target.from_compile_spec(spec)
    assert target == Target.of("ethos-u55-128", system_config="Ethos_U55_Deep_Embedded", memory_mode="Sram_Only")
    assert "--memory-mode=Sram_Only" in target.flags and not any("here" in f or "verbose" in f for f in target.flags)
    default = compile_graph(conv_graph(), Target.of("ethos-u55-128"), worker)
    assert compile_graph(conv_graph(), target, worker).memory.keys() != default.memory.keys()
