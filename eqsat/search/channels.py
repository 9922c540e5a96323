"""Channel counts just above a multiple of 16, which cost an NPU nearly as much as the next multiple.

Example, measured with Vela 5.2: a convolution 3x3 of [1, 32, 32, C] with C results takes 26,015 calibrated cycles on
U55-128 if C is 16, and 76,144 if it is 17; on U85-256 these are 13,037 and 37,672.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from cost_models.closed_form import estimate_cycles
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Type

#: Channels that an NPU computes together.
_TOGETHER = 16
#: Highest share of the channels that the advice does without.
_MOST_FEWER = 1 / 8
#: Lowest share of all cycles that has to be saved; the closed form is wrong by about as much.
_LEAST_SAVED = 0.05


@dataclass(frozen=True, slots=True)
class ChannelStep:
    """Convolutions that would take far fewer cycles with slightly fewer channels.

    channels, fewer: the number of channels, and the multiple of 16 below it.
    convolutions: how many convolutions read or write as many channels.
    cycles: the calibrated cycles that all of them would save, as the closed form estimates them.
    """

    channels: int
    fewer: int
    convolutions: int
    cycles: int

    def __str__(self) -> str:
        many = f"{self.convolutions} convolutions" if self.convolutions > 1 else "a convolution"
        return (
            f"{many} with {self.channels} channels: a model with {self.fewer} of these channels "
            f"would take about {self.cycles:,} cycles fewer"
        )


#: {operator: the axes of its weights that are channels}.
_CHANNEL_AXES = {"conv2d": (0, 3), "depthwise_conv2d": (2,)}


def channel_steps(graph: TensorGraph, source: TensorGraph, target: Target, cycles: int) -> list[ChannelStep]:
    """Returns the numbers of channels of which a model should have slightly fewer, those that save most first.

    graph: the graph that is compiled; cycles: what it takes in all, calibrated.
    source: the graph that was given, whose convolutions have the channels that the user knows.
    """
    known, saved = {c for n in _convolutions(source) for c in _channels(source, n)}, defaultdict[int, list[float]](list)
    for n in _convolutions(graph):
        for c in known & _channels(graph, n):
            if 0 < c % _TOGETHER <= _MOST_FEWER * c:
                saved[c].append(_cycles(graph, n, c, c, target) - _cycles(graph, n, c, c - c % _TOGETHER, target))
    steps = [ChannelStep(c, c - c % _TOGETHER, len(each), round(sum(each))) for c, each in saved.items()]
    return sorted((s for s in steps if s.cycles > _LEAST_SAVED * cycles), key=lambda s: -s.cycles)


def _convolutions(graph: TensorGraph) -> list[int]:
    """Returns the convolutions, of depthwise ones those with as many results as channels."""
    found = (n for n in graph.live() if graph.nodes[n].op in _CHANNEL_AXES)
    return [n for n in found if graph.nodes[n].op == "conv2d" or len(_channels(graph, n)) == 1]


def _channels(graph: TensorGraph, n: int) -> set[int]:
    """Returns the numbers of channels that a convolution reads and writes."""
    node = graph.nodes[n]
    return {graph.nodes[node.inputs[0]].shape[-1], node.shape[-1]}


def _cycles(graph: TensorGraph, n: int, channels: int, fewer: int, target: Target) -> float:
    """Returns the cycles of a convolution with `fewer` channels wherever it has `channels`, by the closed form."""
    node = graph.nodes[n]
    axes = ((-1,), _CHANNEL_AXES[node.op], (0,))
    operands = []
    for t, those in zip(map(graph.type, node.inputs), axes, strict=True):
        shape = list(t.shape)
        for axis in those:
            shape[axis] = fewer if shape[axis] == channels else shape[axis]
        operands.append(Type(tuple(shape), t.dtype))
    return estimate_cycles(
        Unit(((node.op, node.attrs),), tuple(operands), infer(node.op, node.attrs, operands)), target
    )
