"""A short ConvNeXt-Atto: Liu et al., arXiv:2201.03545.

It has the widths of timm's "atto", 40 to 320, and fewer blocks.
A depthwise 7x7 convolution works on NCHW, the LayerNorm and linear layers after it on NHWC.
So every block permutes there and back.
LayerScale is a per-channel multiplication in front of the residual, with a requantization of its own.

Input: (1, 3, 64, 64).
Output: (1, 100) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import mean, seeded


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of an NCHW tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A depthwise 7x7 convolution, an MLP over channels and a LayerScale, with a residual: (N, dim, H, W)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.layer_scale = nn.Parameter(torch.empty(dim).uniform_(0.2, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer_scale * self.mlp(self.depthwise(x).permute(0, 2, 3, 1))
        return x + y.permute(0, 3, 1, 2)


def convnext(
    widths: tuple[int, ...] = (40, 80, 160, 320), depths: tuple[int, ...] = (1, 1, 2, 1), classes: int = 100
) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, stride=4), ChannelNorm(widths[0])]
    for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if i > 0:
            layers += [ChannelNorm(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, stride=2)]
        layers += [ConvNeXtBlock(width) for _ in range(depth)]
    return nn.Sequential(*layers, mean(2, 3), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes))


model = seeded(convnext, (1, 3, 64, 64))
