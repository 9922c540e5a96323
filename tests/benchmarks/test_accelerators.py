"""All accelerators: Vela takes every setup, graphs depend on the family alone, and a small graph end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.accelerators import main, setups
from eqsat.ground.worker import Pool
from eqsat.target import ACCELERATORS, FAMILIES, Target
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import residual, transposed_relus


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1) as pool:
        yield pool


def test_every_accelerator_has_the_setup_that_executorch_compiles_for_and_other_modes() -> None:
    found = setups()
    assert len(found) == len(set(found))
    for accelerator in ACCELERATORS:
        targets = [s.target for s in found if s.accelerator == accelerator]
        assert Target.of(accelerator) == targets[0] and len(targets) > 1
    assert {s.accelerator for s in setups(["ethos-u65-512"])} == {"ethos-u65-512"}


def test_vela_takes_every_setup(pool: Pool) -> None:
    for setup in setups():
        assert compile_tosa(dumps(residual()), setup.target, pool).cycles > 0, setup


@pytest.mark.slow
def test_lowering_is_told_the_family_alone() -> None:
    compile_spec = pytest.importorskip("executorch.backends.arm.ethosu").EthosUCompileSpec
    for family in FAMILIES:
        assert len({str(compile_spec(accelerator).tosa_spec) for accelerator in family.cores}) == 1


@pytest.mark.slow
def test_graphs_depend_on_the_family_alone() -> None:
    from eqsat.bench.lowering import prepare
    from eqsat.executorch.names import INT8

    made = [prepare("benchmarks.models.pixel_shuffle:model", f"ethos-u55-{macs}", INT8)[0] for macs in (32, 256)]
    assert made[0] == made[1]


@pytest.mark.slow
def test_a_small_graph(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for kind in ("explicit", "stock"):
        (tmp_path / f"relus.0.ethos-u85-256.{kind}.tosa").write_bytes(dumps(transposed_relus(1)))
    arguments = ["--tosa", str(tmp_path), "--accelerators", "ethos-u85-512", "--out", str(tmp_path / "out")]
    main(arguments)
    written = (tmp_path / "out/records.jsonl").read_text()
    records = [json.loads(line) for line in written.splitlines()]
    assert [r["memory_mode"] for r in records] == ["Sram_Only", "Shared_Sram", "Dedicated_Sram_384KB"]
    assert all(r["verified"] and r["binary_verified"] and r["eqsat"] < r["stock"] for r in records)
    assert capsys.readouterr().out.endswith((tmp_path / "out/table.md").read_text() + "\n")
    assert (tmp_path / "out/picture.svg").read_text().startswith("<svg")
    main(arguments)
    assert (tmp_path / "out/records.jsonl").read_text() == written
