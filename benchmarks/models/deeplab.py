"""Segmentation with atrous spatial pyramid pooling, DeepLabv3: Chen et al., arXiv:1706.05587.

The backbone is small and residual with output stride 8; its last stage is dilated instead of strided.
The pyramid concatenates five results of one tensor.
These are 3x3 convolutions with dilations 2, 4 and 8, a 1x1 convolution, and the mean of the image.
Dilations above 2 are no single operator on the NPU.

Input: (1, 3, 128, 128).
Output: (1, 5, 128, 128) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import Residual, conv
from benchmarks.models._seeded import seeded


def conv_relu(c_in: int, c_out: int, kernel: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    return conv(c_in, c_out, kernel, stride, act=nn.ReLU, dilation=dilation)


def residual(channels: int, dilation: int) -> nn.Sequential:
    """Returns a dilated 3x3 and a 1x1 convolution with a residual and ReLU: (N, C, H, W) to the same shape."""
    body = conv_relu(channels, channels, 3, dilation=dilation), nn.Conv2d(channels, channels, 1)
    return nn.Sequential(Residual(*body), nn.ReLU())


class AtrousPyramid(nn.Module):
    """Atrous spatial pyramid pooling: it maps (N, c_in, size, size) to (N, width, size, size)."""

    def __init__(self, c_in: int, width: int, size: int, dilations: tuple[int, ...] = (2, 4, 8)) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [conv_relu(c_in, width, 1), *(conv_relu(c_in, width, 3, dilation=d) for d in dilations)]
        )
        self.image = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(c_in, width, 1), nn.ReLU(), nn.Upsample(size=(size, size))
        )
        self.merge = conv_relu((len(dilations) + 2) * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.merge(torch.cat([*(branch(x) for branch in self.branches), self.image(x)], dim=1))


class DeepLab(nn.Module):
    def __init__(self, size: int = 128, classes: int = 5) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            conv_relu(3, 16, 3, 2),
            conv_relu(16, 32, 3, 2),
            residual(32, 1),
            conv_relu(32, 48, 3, 2),
            residual(48, 2),
            residual(48, 4),
        )
        self.pyramid = AtrousPyramid(48, 32, size // 8)
        self.head = nn.Conv2d(32, classes, 1)
        self.enlarge = nn.Upsample(scale_factor=8, mode="bilinear")

    def forward(self, x: Tensor) -> Tensor:
        return self.enlarge(self.head(self.pyramid(self.backbone(x))))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(DeepLab, (1, 3, 128, 128))
