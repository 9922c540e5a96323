"""DS-CNN (small) for keyword spotting: Zhang et al., "Hello Edge", arXiv:1711.07128; also MLPerf Tiny's KWS model.

It has one wide convolution, four depthwise-separable blocks and a global average pool.
There is almost no data movement to remove.
So it is the zoo's control, on which an optimizer must at least do no harm.

Input: (1, 1, 49, 10), 49 frames of 10 MFCCs.
Output: (1, 12) logits.
"""

from typing import Any

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


def conv_bn_relu(c_in: int, c_out: int, kernel: tuple[int, int], groups: int = 1, **conv: Any) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, kernel, groups=groups, bias=False, **conv), nn.BatchNorm2d(c_out), nn.ReLU()
    )


class DsCnn(nn.Module):
    def __init__(self, channels: int = 64, blocks: int = 4, classes: int = 12) -> None:
        super().__init__()
        self.stem = conv_bn_relu(1, channels, (10, 4), stride=(2, 2), padding=(5, 1))
        self.blocks = nn.Sequential()
        for _ in range(blocks):
            self.blocks.append(conv_bn_relu(channels, channels, (3, 3), groups=channels, padding=(1, 1)))
            self.blocks.append(conv_bn_relu(channels, channels, (1, 1)))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(DsCnn, (1, 1, 49, 10))
