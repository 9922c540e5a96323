"""The figures of a cell that are not Vela's."""

from __future__ import annotations

import pytest

from eqsat.bench.measure import measure
from eqsat.target import Target
from eqsat.tosa import dumps
from tests.graphs import transposed_relus


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
