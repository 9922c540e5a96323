"""MobileNetV2 of width 0.35: Sandler et al., arXiv:1801.04381.

It has inverted residuals with linear bottlenecks.
Its layouts are already good.
The residual additions between tensors of different scales and the flatten in front of the classifier remain.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

from torch import nn

from benchmarks.models._blocks import classifier, conv, inverted, seeded

#: (expansion, output channels at width 1, repeats, stride of the first block) of each stage.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def scaled(channels: int, width: float) -> int:
    """Returns `channels * width` rounded to a multiple of 8, never down by more than a tenth."""
    rounded = max(8, int(channels * width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels * width else rounded


def mobilenet_v2(width: float = 0.35, classes: int = 1000) -> nn.Sequential:
    channels = scaled(32, width)
    layers: list[nn.Module] = [conv(3, channels, 3, 2)]
    for expansion, c, repeats, stride in STAGES:
        for i in range(repeats):
            layers.append(inverted(channels, expansion * channels, scaled(c, width), stride if i == 0 else 1))
            channels = scaled(c, width)
    return classifier([*layers, conv(channels, 1280)], 1280, classes)


model = seeded(mobilenet_v2, (1, 3, 96, 96))
