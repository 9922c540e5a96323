"""MobileNetV1 of width 0.25, MLPerf Tiny's visual wake words: Howard et al., arXiv:1704.04861; Banbury et al.,
arXiv:2106.07597.

Depthwise and 1x1 convolutions in turn, few channels at first: the person detector that microcontrollers run, and a
control for layouts.

Input: (1, 3, 96, 96). Output: (1, 2) logits.
"""

from torch import Tensor, nn

from benchmarks.models._inverted import classifier, conv
from benchmarks.models._seeded import seeded

#: (channels of the result, stride) of each pair.
PAIRS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))


def mobilenet_v1(classes: int = 2) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 8, 3, 2)]
    channels = 8
    for c_out, stride in PAIRS:
        layers += [conv(channels, channels, 3, stride, channels), conv(channels, c_out, 1)]
        channels = c_out
    return classifier(layers, channels, classes)


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(mobilenet_v1, (1, 3, 96, 96))
