"""A small DenseNet-BC: Huang et al., arXiv:1608.06993.

Every layer concatenates all earlier results and then normalises.
So the BatchNorm follows a concat and precedes the ReLU, and no convolution can absorb it.
It stays a chain of per-channel pointwise operators.
The concats nest.

Input: (1, 3, 32, 32).
Output: (1, 10) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._seeded import seeded


def norm_relu_conv(c_in: int, c_out: int, kernel: int) -> nn.Sequential:
    """Returns BatchNorm, ReLU and a convolution, in this order."""
    conv = nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(c_in), nn.ReLU(), conv)


class DenseLayer(nn.Module):
    """A bottleneck layer that adds `growth` channels: (N, c_in, H, W) to (N, c_in + growth, H, W)."""

    def __init__(self, c_in: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(norm_relu_conv(c_in, 4 * growth, 1), norm_relu_conv(4 * growth, growth, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.body(x)), dim=1)


class DenseNet(nn.Module):
    def __init__(self, growth: int = 12, blocks: tuple[int, ...] = (3, 3, 3), classes: int = 10) -> None:
        super().__init__()
        channels = 2 * growth
        self.features = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1, bias=False))
        for i, layers in enumerate(blocks):
            if i > 0:  # A transition halves the channels, H and W.
                self.features.append(norm_relu_conv(channels, channels // 2, 1))
                self.features.append(nn.AvgPool2d(2))
                channels //= 2
            for _ in range(layers):
                self.features.append(DenseLayer(channels, growth))
                channels += growth
        self.features.append(nn.BatchNorm2d(channels))
        self.features.append(nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(DenseNet, (1, 3, 32, 32))
