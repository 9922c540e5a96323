"""All accelerators: Vela takes every setup, graphs depend on the family alone, a small graph ends to end, and the
table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.accelerators import Row, Setup, cells, main, picture, setups, table
from eqsat.ground.worker import Pool
from eqsat.target import ACCELERATORS, FAMILIES, Target
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import residual, transposed_relus

ABOUT = {"commit": "abc", "versions": {"executorch": "1"}, "effort": 1}


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


@pytest.mark.parametrize("setup", setups(), ids=str)
def test_vela_takes_every_setup(pool: Pool, setup: Setup) -> None:
    assert compile_tosa(dumps(residual()), setup.target, pool).cycles > 0


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


def test_a_graph_of_one_accelerator_is_compiled_for_its_family(tmp_path: Path) -> None:
    for target in ("ethos-u85-128", "ethos-u85-256", "ethos-u55-64"):
        for kind in ("explicit", "stock"):
            (tmp_path / f"relus.0.{target}.{kind}.tosa").write_bytes(b"")
    found = list(cells(tmp_path, [], setups()))
    assert {(g.target, s.target.family.name) for g, s in found} == {("ethos-u85-128", "u85"), ("ethos-u55-64", "u55")}
    assert {s for _, s in found} == {s for s in setups() if s.target.family.name in ("u55", "u85")}


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


def _record(model: str, mode: str = "Sram_Only", **more: object) -> dict:
    setup = {"accelerator": "ethos-u85-512", "system_config": "Ethos_U85_SYS_DRAM_Mid", "memory_mode": mode}
    figures = {"stock": 100, "eqsat": 50, "sram": [10, 10], "verified": True, "binary_verified": True}
    return {"model": model, "delegate": "0", **setup, **figures, "binary_reason": "", "warnings": [], **more}


def test_a_row_counts_what_is_worse_and_leaves_out_what_is_not_whole() -> None:
    row = Row.of(
        [
            _record("a"),
            _record("a", eqsat=110, sram=[10, 11], binary_verified=False),
            _record("b"),
            _record("b", stock=None, sram=[None, 5], binary_verified=None),
            {"model": "c", "error": "E: no"},
            _record("c"),
        ]
    )
    assert row == Row({"a": 0.8}, 1, 1, (3, 1, 1), 1, 1)


def test_the_table_has_means_of_what_every_setup_has_and_says_what_went_wrong() -> None:
    records = [_record("a"), _record("b", eqsat=32), _record("c", eqsat=1), _record("a", "Shared_Sram")]
    records += [_record("b", "Shared_Sram", eqsat=8, binary_verified=None, binary_reason="too large")]
    text = table(records, ABOUT)
    assert "| a | b | c | geometric mean of 3 |" in text.partition("## All setups")[0]
    assert "| a | b | c | geometric mean of 2 |" in text
    assert "| u85-512 DRAM_Mid Sram_Only | 0.500 | 0.320 | 0.010 | **0.400** | 0 | 0 | 3, 0, 0 |" in text
    assert "| u85-512 DRAM_Mid Shared_Sram | 0.500 | 0.080 | - | **0.200** | 0 | 0 | 1, 0, 1 |" in text
    assert "2 setups, 5 delegates" in text and "* b ethos-u85-512: too large\n" in text
    assert picture(records).count("u85-512 DRAM_Mid") >= 2


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["--tosa", str(tmp_path)])
    assert "explicit.tosa" in capsys.readouterr().err
