"""The LiteRT path: Vela's side always, the conversion where `EQSAT_LITERT` names the environment that
`eqsat bench --setup-litert` made."""

import os
from pathlib import Path

import pytest

from eqsat.bench import litert, run
from eqsat.ground.files import InputError
from eqsat.ground.process import WorkerError
from eqsat.target import Target
from eqsat.vela.compile import compile_tflite
from tests.bench.runs import TARGET

#: Conv2d(3, 8, 3, padding=1), relu, cumsum over the channels on 1x3x8x8, converted by litert_convert.py; Vela leaves
#: the cumsum to the CPU.
TFLITE = Path(__file__).parent / "data" / "conv_cumsum.tflite"
ENVIRONMENT = os.environ.get("EQSAT_LITERT")


def test_vela_takes_a_tflite_and_tells_what_stays_on_the_cpu(pool):
    estimate = compile_tflite(TFLITE.read_bytes(), Target.of(TARGET), pool)
    assert estimate.by_kind["convolution"] > 0 and estimate.cycles >= sum(estimate.by_kind.values())
    assert estimate.cpu_operators > 0 and estimate.binary[0] > 0 and estimate.memory["Sram"]["peak"] > 0
    with pytest.raises(WorkerError):
        compile_tflite(b"no model", Target.of(TARGET), pool)


def test_without_the_environment_the_remedy_is_named(tmp_path):
    for directory in (None, tmp_path):
        with pytest.raises(InputError, match="eqsat bench --setup-litert"):
            litert.check(directory)


def test_a_model_is_measured_in_the_best_settings_of_vela(pool, monkeypatch):
    monkeypatch.setattr(litert, "converted", lambda reference, environment: (TFLITE.read_bytes(), {"convert": 1.0}))
    record, _, _ = litert.measure("model.py:model", TARGET, "no environment")
    (settings,) = record["settings"]
    plain, again = (
        compile_tflite(TFLITE.read_bytes(), Target.of(TARGET).with_flags(flags), pool) for flags in ((), settings)
    )
    assert record["corrected"] == again.corrected <= plain.corrected
    assert record["memory"]["Sram"]["peak"] == again.sram_peak <= plain.sram_peak


@pytest.mark.skipif(ENVIRONMENT is None, reason="EQSAT_LITERT names no environment")
def test_a_model_of_the_zoo(tmp_path):
    (record,) = run(["pixel_shuffle"], [TARGET], ["litert"], tmp_path, litert_environment=Path(ENVIRONMENT))
    assert record["cycles"] == sum(record["by_kind"].values())
    assert record["cpu_operators"] == 0 and record["verified"] is None
