"""Stock at its best: the layout of inputs and outputs, and the settings of Vela."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eqsat.bench import isolated, run
from eqsat.bench.measure import in_best_settings, measure
from eqsat.bench.records import read_records
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate, compile_tosa
from eqsat.vela.roofline import Rates
from tests.bench.runs import EXPLICIT, TARGET, attempt_here, tosa_files
from tests.fake_oracle import raw_output
from tests.graphs import residual
from tests.networks import written


@pytest.mark.slow
def test_a_network_on_images_is_at_its_best_with_channels_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = "Sequential(Conv2d(3, 8, 3, 2, 1), ReLU(), AdaptiveAvgPool2d(1), Flatten())"
    model = written(tmp_path / "camera.py", layers, 1, 3, 32, 32)
    monkeypatch.setattr(isolated, "attempt", attempt_here)
    stock, best = run([model], [TARGET], ["stock", "stock-best"], tmp_path / "RUN")
    assert best["layout"] == "channels_last: input 0" and best["verified"]
    assert best["layouts"].keys() == {"as given", best["layout"]}
    assert best["calibrated"] == best["layouts"][best["layout"]] < best["layouts"]["as given"] <= stock["calibrated"]
    assert best["op_counts"].get("transpose", 0) < stock["op_counts"]["transpose"]
    assert best["memory"]["Sram"]["peak"] <= stock["memory"]["Sram"]["peak"] and len(best["settings"]) == 1
    assert [(r["layout"], r["settings"]) for r in read_records(tmp_path / "RUN") if "layout" in r] == [
        (best["layout"], [list(best["settings"][0])])
    ]


@pytest.mark.slow
def test_a_tosa_file_is_at_its_best_in_other_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "attempt", attempt_here)
    given, best = run(tosa_files(tmp_path)[:1], [TARGET], [EXPLICIT, "stock-best"], tmp_path / "RUN")
    assert best["layout"] == "as given" and best["layouts"] == {"as given": best["calibrated"]}
    assert best["calibrated"] <= given["calibrated"]


@pytest.mark.parametrize(("stream", "cycles", "taken"), [(b"same", 100, ()), (b"other", 50, ("--optimise=Size",))])
def test_a_setting_that_leaves_the_command_stream_as_it_was_is_none(stream: bytes, cycles: int, taken: Any) -> None:
    """Vela's table can make the same stream cheaper: 25,942,898 cycles and 10,894,706 for a part of a ViT."""

    def compiled(target: Target) -> Estimate:
        changed = target.sets("--optimise")
        raw = raw_output(stream if changed else b"same")
        return Estimate(50 if changed else 100, (), {"Sram": {"peak": 1000}}, Rates(1, 1.0, 1.0, 1.0), raw)

    best, settings = in_best_settings(Target.of(TARGET), compiled)
    assert (best.cycles, settings) == (cycles, taken)


def test_settings_that_the_user_has_set_are_left_alone_and_others_need_no_more_sram(pool: Pool) -> None:
    graph, target, tried = dumps(residual()), Target.of("ethos-u55-128"), list[tuple[str, ...]]()

    def compiled(chosen: Target) -> Any:
        tried.append(tuple(chosen.flags[len(target.flags) :]))
        return compile_tosa(graph, chosen, pool)

    best, settings = in_best_settings(target, compiled)
    assert tried[0] == () and tried[-1] == ("--optimise=Size",) and settings in tried
    plain = compile_tosa(graph, target, pool)
    assert best.cycles <= plain.cycles and best.sram_peak <= plain.sram_peak
    tried.clear()
    fixed = target.with_flags(("--optimise=Performance", "--arena-cache-size=9999"))
    assert in_best_settings(fixed, compiled)[1] == () and len(tried) == 1


def test_stock_in_the_best_settings_of_vela(pool: Pool) -> None:
    target, graph = Target.of("ethos-u55-128"), dumps(residual())
    side: dict[str, Any] = {"stock_errors": [""], "seconds": {}, "pte_frame_bytes": None}
    files = {"0.explicit": graph, "0.stock": graph}
    plain, tuned = (measure(name, list(target.flags), files, side)[0] for name in ("stock", "stock-best"))
    assert plain["settings"] == [()] and len(tuned["settings"][0]) == 1
    before, after = ((r["calibrated"], r["memory"]["Sram"]["peak"]) for r in (plain, tuned))
    assert after[0] <= before[0] and after[1] <= before[1] and after != before
    again = compile_tosa(graph, target.with_flags(tuned["settings"][0]), pool)
    assert (again.cycles, again.sram_peak) == (tuned["cycles"], after[1])
