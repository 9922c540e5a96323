"""Image classification after MixNet-S at 128 px: Tan and Le, arXiv:1907.09595.

The depthwise part of its inverted residuals is several convolutions with kernels of 3 to 11.
Each works on a part of the channels, and a concatenation joins the results.

Input: (1, 3, 128, 128).
Output: (1, 100) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import Residual, conv, mean, seeded


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


def block(c_in: int, c_out: int, kernels: tuple[int, ...], stride: int, expansion: int) -> nn.Sequential:
    """Returns an inverted residual with a mixed depthwise convolution.

    It maps (n, c_in, h, w) to (n, c_out, h / stride, w / stride).
    """
    wide = c_in * expansion
    return (Residual if stride == 1 and c_in == c_out else nn.Sequential)(
        conv(c_in, wide, act=nn.ReLU),
        *(MixedDepthwise(wide, kernels, stride), nn.BatchNorm2d(wide), nn.ReLU()),
        conv(wide, c_out, act=None),
    )


def mixnet(classes: int = 100) -> nn.Sequential:
    return nn.Sequential(
        conv(3, 16, 3, 2, act=nn.ReLU),
        block(16, 24, (3,), 2, 4),
        block(24, 24, (3,), 1, 3),
        block(24, 40, (3, 5, 7), 2, 6),
        block(40, 40, (3, 5), 1, 6),
        block(40, 80, (3, 5, 7), 2, 6),
        block(80, 80, (3, 5), 1, 6),
        block(80, 120, (3, 5, 7), 1, 6),
        block(120, 120, (3, 5, 7, 9), 1, 3),
        block(120, 200, (3, 5, 7, 9, 11), 2, 6),
        mean(2, 3),
        nn.Linear(200, classes),
    )


model = seeded(mixnet, (1, 3, 128, 128))
