"""GhostNet 0.5: Han et al., arXiv:1911.11907.

A ghost module computes half of its channels by a 1x1 convolution.
It computes the other half from those by a cheap depthwise convolution, and concatenates both.
So one producer has two readers, every second layer is a channel concat, and residuals cross them.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

import torch
from torch import Tensor, nn

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


def conv_bn(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = False) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out), nn.ReLU() if relu else nn.Identity())


class GhostModule(nn.Module):
    """A ghost module: it maps (N, c_in, H, W) to (N, c_out, H, W)."""

    def __init__(self, c_in: int, c_out: int, relu: bool) -> None:
        super().__init__()
        self.primary = conv_bn(c_in, c_out // 2, 1, relu=relu)
        self.cheap = conv_bn(c_out // 2, c_out // 2, 3, groups=c_out // 2, relu=relu)

    def forward(self, x: Tensor) -> Tensor:
        primary = self.primary(x)
        return torch.cat((primary, self.cheap(primary)), dim=1)


class SqueezeExcite(nn.Module):
    """Squeeze-and-excitation, a gate per channel from the mean over the image: Hu et al., arXiv:1709.01507."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = scaled(channels // 2)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class GhostBottleneck(nn.Module):
    """Two ghost modules with a strided depthwise convolution between, and a shortcut."""

    def __init__(self, c_in: int, kernel: int, hidden: int, c_out: int, squeeze: bool, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            GhostModule(c_in, hidden, relu=True),
            conv_bn(hidden, hidden, kernel, stride, groups=hidden) if stride > 1 else nn.Identity(),
            SqueezeExcite(hidden) if squeeze else nn.Identity(),
            GhostModule(hidden, c_out, relu=False),
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and c_in == c_out
            else nn.Sequential(conv_bn(c_in, c_in, kernel, stride, groups=c_in), conv_bn(c_in, c_out, 1))
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class GhostNet(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        channels = scaled(16)
        self.features = nn.Sequential(conv_bn(3, channels, 3, stride=2, relu=True))
        for kernel, hidden, c_out, squeeze, stride in BLOCKS:
            self.features.append(GhostBottleneck(channels, kernel, scaled(hidden), scaled(c_out), squeeze, stride))
            channels = scaled(c_out)
        self.features.append(conv_bn(channels, scaled(960), 1, relu=True))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Linear(scaled(960), 1280), nn.ReLU(), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(GhostNet, (1, 3, 96, 96))
