"""Advice on numbers of channels just above a multiple of 16."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.ground.worker import Pool
from eqsat.search.channels import channel_steps
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.fake_oracle import by_vela
from tests.graphs import conv, finish, rescale

U55 = Target.of("ethos-u55-128")


def convolutions(channels: int, number: int = 2) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 32, 32, channels), "INT8")
    for _ in range(number):
        x = conv(g, x, channels, kernel=3)
    return finish(g, x)


def cycles(g: TensorGraph) -> int:
    with Pool(1) as pool:
        return by_vela(g, U55, pool).figures.cycles


@pytest.mark.parametrize("channels", [17, 33])
def test_the_estimate_is_what_fewer_channels_save(channels: int) -> None:
    g = convolutions(channels)
    whole = cycles(g)
    (step,) = channel_steps(g, g, U55, whole)
    assert (step.channels, step.fewer, step.convolutions) == (channels, channels - 1, 2)
    assert step.cycles == pytest.approx(whole - cycles(convolutions(channels - 1)), rel=0.1)


@pytest.mark.parametrize("channels", [15, 16, 24])
def test_no_advice_without_a_step_just_below(channels: int) -> None:
    g = convolutions(channels)
    assert channel_steps(g, g, U55, 1) == []


def test_no_advice_on_channels_that_the_given_graph_does_not_have() -> None:
    assert channel_steps(convolutions(17), convolutions(34), U55, 1) == []


@pytest.mark.parametrize("multiplier, found", [(1, True), (2, False)])
def test_depthwise_convolutions_count_if_their_channels_are_all_they_write(multiplier: int, found: bool) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 32, 32, 17), "INT8")
    weights = g.add_const(np.ones((3, 3, 17, multiplier)), "INT8")
    bias = g.add_const(np.zeros(17 * multiplier), "INT32")
    attrs = makers.conv("INT8", pad=(1, 1, 1, 1), stride=(1, 1), dilation=(1, 1))
    finish(g, rescale(g, g.add_with("depthwise_conv2d", [x, weights, bias], attrs), "INT8"))
    assert [s.channels for s in channel_steps(g, g, U55, 1)] == [17] * found


def test_no_advice_for_a_small_share_of_all_cycles() -> None:
    g = convolutions(17)
    assert channel_steps(g, g, U55, 100 * cycles(g)) == []


def test_the_result_tells_it() -> None:
    result = optimize_tosa(dumps(convolutions(17)), U55)
    (line,) = (line for line in result.verdicts() if "channels" in line)
    (step,) = result.record()["channel_steps"]
    assert f"with 17 channels: a model with 16 of these channels would take about {step['cycles']:,}" in line
