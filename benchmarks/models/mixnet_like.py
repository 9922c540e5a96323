"""Image classification after MixNet-S at 128 px: Tan and Le, arXiv:1907.09595.

The depthwise part of its inverted residuals is several convolutions with kernels of 3 to 11.
Each works on a part of the channels, and a concatenation joins the results.

Input: (1, 3, 128, 128).
Output: (1, 100) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._seeded import seeded


class MixedDepthwise(nn.Module):
    """Depthwise convolutions with a kernel size for each part of the channels.

    They map (n, c, h, w) to (n, c, h / stride, w / stride).
    """

    def __init__(self, channels: int, kernels: tuple[int, ...], stride: int) -> None:
        super().__init__()
        part = channels // len(kernels)
        self.widths = [channels - part * (len(kernels) - 1), *[part] * (len(kernels) - 1)]
        self.parts = nn.ModuleList(
            nn.Conv2d(w, w, k, stride, k // 2, groups=w, bias=False) for w, k in zip(self.widths, kernels, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        split = torch.split(x, self.widths, dim=1)
        return torch.cat([part(x) for part, x in zip(self.parts, split, strict=True)], dim=1)


class Block(nn.Module):
    """An inverted residual with a mixed depthwise convolution.

    It maps (n, inputs, h, w) to (n, outputs, h / stride, w / stride).
    """

    def __init__(self, inputs: int, outputs: int, kernels: tuple[int, ...], stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()),
            *(MixedDepthwise(wide, kernels, stride), nn.BatchNorm2d(wide), nn.ReLU()),
            *(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class MixNet(nn.Module):
    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(
            Block(16, 24, (3,), 2, 4),
            Block(24, 24, (3,), 1, 3),
            Block(24, 40, (3, 5, 7), 2, 6),
            Block(40, 40, (3, 5), 1, 6),
            Block(40, 80, (3, 5, 7), 2, 6),
            Block(80, 80, (3, 5), 1, 6),
            Block(80, 120, (3, 5, 7), 1, 6),
            Block(120, 120, (3, 5, 7, 9), 1, 3),
            Block(120, 200, (3, 5, 7, 9, 11), 2, 6),
        )
        self.head = nn.Linear(200, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(MixNet, (1, 3, 128, 128))
