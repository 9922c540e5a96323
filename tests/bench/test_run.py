"""Runs: what a record holds, resuming, and failures."""

import json
from importlib.metadata import version

import pytest

from eqsat.bench import isolated, run
from eqsat.bench.measure import measure
from eqsat.bench.records import read_records
from eqsat.ground.files import InputError
from eqsat.report.data import KIND_COLOURS, STAGES
from eqsat.target import Target, TargetError
from eqsat.tosa import dumps, loads
from eqsat.vela.compile import KINDS as VELA_KINDS
from tests import command
from tests.bench.runs import EXPLICIT, TARGET, attempt_here, figures, tosa_files
from tests.graphs import transposed_relus
from tests.networks import written

pytestmark = pytest.mark.slow

CONFIGURATIONS = [EXPLICIT, "eqsat:effort=1"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[str]:
    return tosa_files(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def whole(models, tmp_path_factory) -> list[dict]:
    """Records of an undisturbed run over the small models."""
    return run(models, [TARGET], CONFIGURATIONS, tmp_path_factory.mktemp("whole"))


def test_records_of_a_real_model(zoo_run):
    stock, explicit, eqsat = read_records(zoo_run)
    assert [r["configuration"] for r in (stock, explicit, eqsat)] == ["stock", EXPLICIT, "eqsat"]
    assert eqsat["cycles"] < explicit["cycles"] and eqsat["cycles"] < stock["cycles"]
    for r in (stock, explicit, eqsat):
        assert r["verified"] is True and r["delegates"] == 1 and r["vela"] == version("ethos-u-vela")
        assert sum(r["by_kind"].values()) == sum(o["cycles"] for o in r["by_operator"].values()) == r["cycles"]
        assert 0 < r["corrected"] <= r["cycles"]
        assert r["memory"]["Sram"]["peak"] > 0 and r["memory"]["Sram"]["written"] > 0 and r["encoded_weight_bytes"] > 0
        assert r["seconds"].keys() <= set(STAGES) and r["seconds"]["lowering"] > 0 and r["peak_mib"] > 0
        assert r["op_counts"]["conv2d"] >= 2 and r["weight_bytes"] > 0
        assert r["bound"] == stock["bound"] and 0 < r["bound"]["roofline"] <= r["bound"]["operators"] < r["cycles"]
        mac_cycles = sum(o["mac_cycles"] for o in r["by_operator"].values())
        # eqsat's graph may multiply by zeros too, where it reads blocks of pixels as channels
        assert mac_cycles >= r["bound"]["mac_cycles"] and (r is eqsat or mac_cycles == r["bound"]["mac_cycles"])
        assert 0 < r["command_bytes"] + r["encoded_weight_bytes"] < r["pte_bytes"]
    assert (eqsat["stop"], eqsat["gap"], eqsat["chosen"]) == (["saturated"], 0, ["eqsat"]) and eqsat["e_nodes"] > 0
    assert "stock passes" not in explicit["seconds"] and "explicit passes" not in stock["seconds"]
    assert set(VELA_KINDS.values()) | {"elementwise"} == set(KIND_COLOURS)
    graphs = {f"pixel_shuffle.0.{TARGET}.{kind}.tosa" for kind in ("explicit", "stock")}
    assert {p.name for p in (zoo_run / "graphs").iterdir()} == {*graphs, f"pixel_shuffle.{TARGET}.json"}


def test_compile_tells_what_the_record_says_and_writes_a_pte_of_that_size(zoo_run, tmp_path):
    model, pte = "benchmarks.models.pixel_shuffle:model", tmp_path / "m.pte"
    done = command.run("compile", model, "-t", TARGET, "-o", pte, "--json")
    assert done.exit_code == 0, done.output
    (stock, _, eqsat), compiled = read_records(zoo_run), json.loads(done.stdout.splitlines()[-1])
    assert compiled["cycles"]["eqsat"] == eqsat["cycles"]
    assert compiled["pte_bytes"] == eqsat["pte_bytes"] == pte.stat().st_size
    assert compiled["stock_pte_bytes"] == stock["pte_bytes"] and compiled["bound"] == stock["bound"]
    assert compiled["memory"]["stock"]["memory"] == stock["memory"]
    assert compiled["memory"]["eqsat"]["memory"] == eqsat["memory"]
    assert compiled["memory"]["eqsat"]["sram"] == eqsat["memory"]["Sram"]["peak"]
    assert {"import PyTorch and ExecuTorch", "executorch lowering"} <= set(compiled["seconds"])
    assert compiled["cpu_operators"] == {f"quantized_decomposed.{q}quantize_per_tensor": 1 for q in ("", "de")}
    assert {o["name"]: o["number"] for o in compiled["left"]} == compiled["cpu_operators"]
    assert compiled["configuration"]["memory_mode"] and compiled["options"]["extractor"]
    assert "random" in compiled["calibration"] and compiled["verified"] is True


def test_a_tosa_file_stands_for_itself(whole):
    assert [(r["model"], r["configuration"]) for r in whole] == [
        (m, c) for m in ("transposed_relus", "channel_shuffle") for c in CONFIGURATIONS
    ]
    before, after = whole[:2]
    assert after["cycles"] < before["cycles"]
    assert after["op_counts"].get("transpose", 0) < before["op_counts"]["transpose"]
    assert before["pte_bytes"] is None


def as_given(records: list[dict]) -> list[dict]:
    """Those of the graphs as they are, which no search is needed for."""
    return [r for r in records if r["configuration"] == EXPLICIT]


def test_an_interrupted_run_goes_on_and_ends_the_same(models, whole, tmp_path, monkeypatch):
    def stop(done: int, total: int, what: str) -> None:
        if "cycles" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(models, [TARGET], [EXPLICIT], tmp_path, progress=stop)
    assert not isolated._live
    kept = read_records(tmp_path)
    assert len(kept) == 1
    with (tmp_path / "records.jsonl").open("a") as f:
        f.write('{"model": "torn')
    lines: list[str] = []
    records = run(models, [TARGET], [EXPLICIT], tmp_path, progress=lambda done, total, what: lines.append(what))
    assert records[0] == kept[0] and sum("there already" in t for t in lines) == 1
    assert figures(records) == figures(as_given(whole))
    assert [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()] == records
    monkeypatch.setattr(isolated, "attempt", None)
    assert run(models, [TARGET], [EXPLICIT], tmp_path) == records, "nothing is left to do"


def test_a_killed_worker_loses_only_its_cell(models, whole, tmp_path, monkeypatch):
    attempt, cells = isolated.attempt, []

    def sabotaged(function, args, limits):
        """The process of the second cell is killed."""
        cells.append(function)
        return attempt(function, args, limits) if len(cells) == 1 else attempt("signal:raise_signal", (9,), limits)

    with monkeypatch.context() as patch:
        patch.setattr(isolated, "attempt", sabotaged)
        records = run(models, [TARGET], [EXPLICIT], tmp_path)
    assert cells == ["eqsat.bench.measure:measure"] * 2
    lost = [r for r in records if "error" in r]
    assert len(lost) == 1 and lost[0]["lost"] and "signal 9" in lost[0]["error"]
    assert figures(records)[0] == figures(as_given(whole))[0]
    lines: list[str] = []
    again = run(models, [TARGET], [EXPLICIT], tmp_path, progress=lambda done, total, what: lines.append(what))
    assert figures(again) == figures(as_given(whole)) and sum("there already" in t for t in lines) == len(records) - 1


def test_a_failed_cell_is_a_row(models, tmp_path):
    broken = tmp_path / "broken.tosa"
    broken.write_bytes(b"no flatbuffer")
    records = run([str(broken), models[1]], [TARGET], [EXPLICIT], tmp_path / "run")
    assert "TosaError" in records[0]["error"] or "WorkerError" in records[0]["error"]
    assert "lost" not in records[0] and records[1]["cycles"] > 0


def test_the_memory_mode_of_a_target_decides_its_figures(models, tmp_path):
    targets = ["ethos-u85-256@Sram_Only", "ethos-u85-256@Dedicated_Sram_384KB"]
    sram, dram = run(models[:1], targets, [EXPLICIT], tmp_path / "run")
    assert (sram["target"], dram["target"]) == tuple(targets)
    assert "Dram" in dram["memory"] and "Dram" not in sram["memory"] and sram["calibrated"] < dram["calibrated"]


def test_bad_input_is_lines_before_anything_starts(models, tmp_path):
    network = ["benchmarks.models.ds_cnn:model"]
    for given, target, configurations, quantization, error, words in (
        (["nope"], TARGET, ["eqsat"], "int8", InputError, "nope"),
        (models, "ethos-u99", ["eqsat"], "int8", TargetError, "ethos-u99"),
        (models, TARGET, ["litert"], "int8", InputError, "no configuration"),
        ([models[0]] * 2, TARGET, ["eqsat"], "int8", InputError, ""),
        (network, TARGET, ["stock"], "int4", InputError, "quantiz"),
        (models, TARGET, ["eqsat"], "a16w8", InputError, "quantiz"),  # .tosa files are quantized already
    ):
        with pytest.raises(error, match=words):
            run(given, [target], configurations, tmp_path / "run", quantization=quantization)
    assert not (tmp_path / "run").exists()


def test_the_quantization_decides_the_graphs_and_is_written_down(zoo_run, tmp_path, monkeypatch):
    model, wide = written(tmp_path / "tiny.py", "Sequential(Conv2d(4, 8, 3), ReLU())", 1, 4, 8, 8), tmp_path / "a16w8"
    monkeypatch.setattr(isolated, "attempt", attempt_here)
    (record,) = run([model], [TARGET], ["stock"], wide, quantization="a16w8")
    assert record["verified"]
    runs = ((zoo_run, "pixel_shuffle", "int8", "INT32"), (wide, "tiny", "a16w8", "INT48"))
    for out, name, quantization, sums in runs:
        assert json.loads((out / "run.json").read_text())["quantization"] == quantization
        graph = loads((out / "graphs" / f"{name}.0.{TARGET}.explicit.tosa").read_bytes())
        assert {n.dtype for n in graph.nodes if n.op == "conv2d"} == {sums}


def test_a_record_has_the_prices_of_both_command_streams_over_all_delegates() -> None:
    graph = dumps(transposed_relus())
    sides = []
    for delegates in (1, 2):
        files = {f"{i}.{kind}": graph for i in range(delegates) for kind in ("explicit", "stock")}
        side = {"stock_errors": [""] * delegates, "pte_frame_bytes": None, "seconds": {}}
        flags = list(Target.of("ethos-u55-128").flags)
        found, *_ = measure("eqsat:extractor=dag_greedy,rounds=1", flags, files, side)
        sides.append(found["command_stream"])
    one, two = sides
    assert 0 < one["eqsat"]["commands"] < one["stock"]["commands"]
    assert {k: 2 * one[k]["cycles"] for k in one} == {k: two[k]["cycles"] for k in two}
