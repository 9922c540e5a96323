"""MobileNetV1 of width 0.25, MLPerf Tiny's visual wake words: Howard et al., arXiv:1704.04861; Banbury et al., arXiv:2106.07597.

Depthwise and 1x1 convolutions in turn, few channels at first: the person detector that microcontrollers run, and a control for layouts.

Input: (1, 3, 96, 96). Output: (1, 2) logits.
"""

from torch import Tensor, nn

from benchmarks.models._inverted import conv
from benchmarks.models._seeded import seeded

#: (channels of the result, stride) of each pair.
PAIRS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))


class MobileNetV1(nn.Module):
    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        layers, channels = [conv(3, 8, 3, 2)], 8
        for c_out, stride in PAIRS:
            layers += [conv(channels, channels, 3, stride, channels), conv(channels, c_out, 1)]
            channels = c_out
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(MobileNetV1, (1, 3, 96, 96))
