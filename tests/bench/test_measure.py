"""The figures of a cell that are not Vela's."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat.bench.measure import measure
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import residual, transposed_relus


@pytest.mark.slow
def test_a_record_has_the_prices_of_both_command_streams_over_all_delegates() -> None:
    graph = dumps(transposed_relus())
    sides = []
    for delegates in (1, 2):
        files = {f"{i}.{kind}": graph for i in range(delegates) for kind in ("explicit", "stock")}
        side = {"stock_errors": [""] * delegates, "pte_frame_bytes": None, "seconds": {}}
        flags = list(Target.of("ethos-u55-128").flags)
        found, *_ = measure("eqsat:extractor=dag_greedy,rounds=1", flags, files, side, False)
        sides.append(found["command_stream"])
    one, two = sides
    assert 0 < one["eqsat"]["commands"] < one["stock"]["commands"]
    assert {k: 2 * one[k]["cycles"] for k in one} == {k: two[k]["cycles"] for k in two}


def test_stock_in_the_best_settings_of_vela(pool: Pool) -> None:
    target, graph = Target.of("ethos-u55-128"), dumps(residual())
    side: dict[str, Any] = {"stock_errors": [""], "seconds": {}, "pte_frame_bytes": None}
    files = {"0.explicit": graph, "0.stock": graph}
    plain, tuned = (measure(name, list(target.flags), files, side, cold=True)[0] for name in ("stock", "stock-tuned"))
    assert plain["settings"] == [()] and len(tuned["settings"][0]) == 1
    sram = [r["memory"]["Sram"]["peak"] for r in (plain, tuned)]
    assert (
        tuned["calibrated"] <= plain["calibrated"]
        and sram[1] <= sram[0]
        and (tuned["calibrated"], sram[1]) != (plain["calibrated"], sram[0])
    )
    again = compile_tosa(graph, target.with_flags(tuned["settings"][0]), pool)
    assert (again.cycles, again.sram_peak) == (tuned["cycles"], sram[1])
