"""GhostNet 0.5: Han et al., arXiv:1911.11907.

A ghost module computes half of its channels by a 1x1 convolution.
It computes the other half from those by a cheap depthwise convolution, and concatenates both.
So one producer has two readers, every second layer is a channel concat, and residuals cross them.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import SqueezeExcite, conv
from benchmarks.models._seeded import seeded

#: Factor of the channels in the paper.
WIDTH = 0.5
#: (kernel, hidden channels, output channels, squeeze-and-excitation, stride) of each bottleneck, at width 1.
BLOCKS = (
    (3, 16, 16, False, 1),
    (3, 48, 24, False, 2),
    (3, 72, 24, False, 1),
    (5, 72, 40, True, 2),
    (5, 120, 40, True, 1),
    (3, 240, 80, False, 2),
    (3, 200, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 480, 112, True, 1),
    (3, 672, 112, True, 1),
    (5, 672, 160, True, 2),
    (5, 960, 160, False, 1),
    (5, 960, 160, True, 1),
    (5, 960, 160, False, 1),
    (5, 960, 160, True, 1),
)


def scaled(channels: int) -> int:
    """Returns channels times WIDTH, rounded to a multiple of 4, at least 4."""
    return max(4, int(channels * WIDTH + 2) // 4 * 4)


class GhostModule(nn.Module):
    """A ghost module: it maps (N, c_in, H, W) to (N, c_out, H, W)."""

    def __init__(self, c_in: int, c_out: int, act: type[nn.Module] | None) -> None:
        super().__init__()
        self.primary = conv(c_in, c_out // 2, act=act)
        self.cheap = conv(c_out // 2, c_out // 2, 3, groups=c_out // 2, act=act)

    def forward(self, x: Tensor) -> Tensor:
        primary = self.primary(x)
        return torch.cat((primary, self.cheap(primary)), dim=1)


class GhostBottleneck(nn.Module):
    """Two ghost modules with a strided depthwise convolution between, and a shortcut."""

    def __init__(self, c_in: int, kernel: int, hidden: int, c_out: int, squeeze: bool, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            GhostModule(c_in, hidden, nn.ReLU),
            *([conv(hidden, hidden, kernel, stride, hidden, None)] if stride > 1 else []),
            *([SqueezeExcite(hidden, scaled(hidden // 2))] if squeeze else []),
            GhostModule(hidden, c_out, None),
        )
        same = stride == 1 and c_in == c_out
        ways = () if same else (conv(c_in, c_in, kernel, stride, c_in, None), conv(c_in, c_out, act=None))
        self.shortcut = nn.Sequential(*ways)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


def ghostnet(classes: int = 1000) -> nn.Sequential:
    channels = scaled(16)
    layers: list[nn.Module] = [conv(3, channels, 3, 2, act=nn.ReLU)]
    for kernel, hidden, c_out, squeeze, stride in BLOCKS:
        layers.append(GhostBottleneck(channels, kernel, scaled(hidden), scaled(c_out), squeeze, stride))
        channels = scaled(c_out)
    head = (nn.Linear(scaled(960), 1280), nn.ReLU(), nn.Linear(1280, classes))
    last = conv(channels, scaled(960), act=nn.ReLU)
    return nn.Sequential(*layers, last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(ghostnet, (1, 3, 96, 96))
