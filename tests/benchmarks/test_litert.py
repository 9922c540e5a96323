"""The LiteRT path: Vela's side always, the conversion where `EQSAT_LITERT` names the environment that
`python -m benchmarks.litert setup` made."""

import json
import os
from pathlib import Path

import pytest

from benchmarks import litert
from benchmarks.tflite import compile_tflite
from eqsat.bench import isolated
from eqsat.bench.isolated import TaskOutcome
from eqsat.bench.records import read_records
from eqsat.ground.files import InputError
from eqsat.ground.process import WorkerError
from eqsat.report import RecordedRun
from eqsat.target import Target
from tests.bench.runs import FIELDS, TARGET

#: Conv2d(3, 8, 3, padding=1), relu, cumsum over the channels on 1x3x8x8, converted by litert_convert.py; Vela leaves
#: the cumsum to the CPU.
TFLITE = Path(__file__).parent / "data" / "conv_cumsum.tflite"
ENVIRONMENT = os.environ.get("EQSAT_LITERT")


def test_vela_takes_a_tflite_and_tells_what_stays_on_the_cpu(pool):
    estimate = compile_tflite(TFLITE.read_bytes(), Target.of(TARGET), pool)
    assert estimate.by_kind["convolution"] > 0 and estimate.cycles >= sum(estimate.by_kind.values())
    assert estimate.cpu_operators > 0 and estimate.streams and estimate.memory["Sram"]["peak"] > 0
    with pytest.raises(WorkerError):
        compile_tflite(b"no model", Target.of(TARGET), pool)


def test_without_the_environment_the_remedy_is_named(tmp_path):
    with pytest.raises(InputError, match="make it with the task setup"):
        litert.main(["measure", str(tmp_path), "--out", str(tmp_path / "RUN")])
    assert not list(tmp_path.iterdir())


def test_a_model_is_measured_in_the_best_settings_of_vela(pool, monkeypatch):
    monkeypatch.setattr(litert, "converted", lambda reference, environment: (TFLITE.read_bytes(), {"convert": 1.0}))
    record, _ = litert.measure("model.py:model", TARGET, "no environment")
    (settings,) = record["settings"]
    targets = (Target.of(TARGET).with_flags(flags) for flags in ((), settings))
    plain, again = (compile_tflite(TFLITE.read_bytes(), target, pool) for target in targets)
    assert record["cycles"] == again.cycles <= plain.cycles
    assert record["memory"]["Sram"]["peak"] == again.sram_peak <= plain.sram_peak


def test_records_are_added_to_those_of_a_run_and_measured_once(tmp_path, monkeypatch):
    """A failed conversion is a record; what is there already is not measured again."""
    environment, asked = tmp_path / "LITERT" / "bin", []
    environment.mkdir(parents=True)
    (environment / "python").write_text("")
    fields = {k: v for k, v in FIELDS.items() if k not in ("model", "target", "configuration", "peak_mib")}

    def attempt(function, args, limits):
        asked.append(args[1])
        return TaskOutcome((fields, [[]]), 9.0) if args[1] == TARGET else TaskOutcome(error="no conversion")

    monkeypatch.setattr(isolated, "attempt", attempt)
    out = tmp_path / "RUN"
    out.mkdir()
    (out / "records.jsonl").write_text(json.dumps(FIELDS) + "\n")
    arguments = ["measure", str(tmp_path / "LITERT"), "--models", "emg", "--out", str(out), "--targets"]
    for _ in range(2):
        litert.main([*arguments, f"{TARGET},ethos-u55-128"])
    first, second, failed = read_records(out)
    assert first == FIELDS and second["configuration"] == failed["configuration"] == "litert"
    assert (second["peak_mib"], failed["error"]) == (9.0, "no conversion") and asked == [TARGET, "ethos-u55-128"]
    assert RecordedRun.read(out).find_chosen(second).rows == [[]]


@pytest.mark.skipif(ENVIRONMENT is None, reason="EQSAT_LITERT names no environment")
def test_a_model_of_the_zoo(tmp_path):
    litert.main(["measure", ENVIRONMENT, "--models", "pixel_shuffle", "--targets", TARGET, "--out", str(tmp_path)])
    (record,) = read_records(tmp_path)
    assert record["cycles"] == sum(record["by_kind"].values())
    assert record["cpu_operators"] == 0 and record["verified"] is None
