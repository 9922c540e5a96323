"""MobileNetV1 of width 0.25: Howard et al., arXiv:1704.04861.

It is the visual wake words model of MLPerf Tiny: Banbury et al., arXiv:2106.07597.
Depthwise and 1x1 convolutions alternate, at first on few channels.
Microcontrollers run it as a person detector; here it is a control for layouts.

Input: (1, 3, 96, 96).
Output: (1, 2) logits.
"""

from torch import nn

from benchmarks.models._blocks import classifier, conv, seeded

#: (output channels, stride) of each pair of a depthwise and a 1x1 convolution.
PAIRS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))


def mobilenet_v1(classes: int = 2) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 8, 3, 2)]
    channels = 8
    for c_out, stride in PAIRS:
        layers += [conv(channels, channels, 3, stride, channels), conv(channels, c_out, 1)]
        channels = c_out
    return classifier(layers, channels, classes)


model = seeded(mobilenet_v1, (1, 3, 96, 96))
