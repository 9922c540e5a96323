"""Advice on numbers of channels just above a multiple of 16."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.channels import channel_steps
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.fake_oracle import by_vela
from tests.graphs import U55
from tests.term import graph, inputs, outputs


def convolutions(channels: int) -> TensorGraph:
    return graph(f"x:INT8[1,32,32,{channels}]", lambda x: x.layer(channels, 3).layer(channels, 3))


@pytest.mark.parametrize("channels", [17, 33])
def test_the_estimate_is_what_fewer_channels_save(channels: int, pool: Pool) -> None:
    g = convolutions(channels)
    whole, less = (by_vela(graph, U55, pool).figures.cycles for graph in (g, convolutions(channels - 1)))
    (step,) = channel_steps(g, g, U55, whole)
    assert (step.channels, step.fewer, step.convolutions) == (channels, channels - 1, 2)
    assert step.cycles == pytest.approx(whole - less, rel=0.1)
    assert channel_steps(g, g, U55, 100 * whole) == [], "it is a small share of all cycles"


@pytest.mark.parametrize(
    "channels, given", [(15, 15), (16, 16), (24, 24), (17, 34)], ids=["below", "at", "far above", "not as given"]
)
def test_no_advice_without_a_step_just_below_in_the_given_graph(channels: int, given: int) -> None:
    assert channel_steps(convolutions(channels), convolutions(given), U55, 1) == []


@pytest.mark.parametrize("multiplier, found", [(1, True), (2, False)])
def test_depthwise_convolutions_count_if_their_channels_are_all_they_write(multiplier: int, found: bool) -> None:
    (x,) = inputs("x:INT8[1,32,32,17]")
    weights, biases = np.ones((3, 3, 17, multiplier)), np.zeros(17 * multiplier)
    g = outputs(x.conv(weights, biases, op="depthwise_conv2d", pad=(1, 1, 1, 1)).rescale("INT8"))
    assert [s.channels for s in channel_steps(g, g, U55, 1)] == [17] * found


def test_the_result_tells_it() -> None:
    result = optimize_tosa(dumps(convolutions(17)), U55, options=Options(effort=0))
    (line,) = (line for line in result.verdicts() if "channels" in line)
    (step,) = result.record()["channel_steps"]
    assert f"with 17 channels: a model with 16 of these channels would take about {step['cycles']:,}" in line
