"""A U-Net that enlarges by bilinear interpolation instead of transposed convolutions.

Source: Odena et al., "Deconvolution and checkerboard artifacts", Distill 2016.
Each level of the decoder has a RESIZE by two, which is concatenated with the tensor of the encoder and convolved.
The interpolation is linear with constant weights too, but it is no convolution of the graph.

Input: (1, 3, 64, 64).
Output: (1, 2, 64, 64) logits.
"""

import itertools

import torch
from torch import Tensor, nn

from benchmarks.models._seeded import seeded
from benchmarks.models.unet import double_conv


class UNetBilinear(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (16, 32, 64), classes: int = 2) -> None:
        super().__init__()
        steps = list(itertools.pairwise(widths))  # (shallow, deep)
        self.stem = double_conv(3, widths[0])
        self.down = nn.ModuleList(double_conv(shallow, deep) for shallow, deep in steps)
        self.merge = nn.ModuleList(double_conv(shallow + deep, shallow) for shallow, deep in reversed(steps))
        self.pool = nn.MaxPool2d(2)
        self.enlarge = nn.Upsample(scale_factor=2, mode="bilinear")
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(self.pool(x))
        for merge in self.merge:
            x = merge(torch.cat((skips.pop(), self.enlarge(x)), dim=1))
        return self.head(x)


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(UNetBilinear, (1, 3, 64, 64))
