"""A small U-Net of three levels with 'same' padding and BatchNorm: Ronneberger et al., arXiv:1505.04597.

Each level of the decoder concatenates an upsampled tensor with one of the encoder.
Their scales differ, so the concat requantizes.
The tensor of the encoder has two readers.

Input: (1, 3, 64, 64).
Output: (1, 2, 64, 64) logits.
"""

import itertools

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import conv, seeded


def double_conv(c_in: int, c_out: int) -> nn.Sequential:
    return nn.Sequential(*(conv(c, c_out, 3, act=nn.ReLU) for c in (c_in, c_out)))


class UNet(nn.Module):
    """A U-Net: it maps (N, 3, H, W) to (N, classes, H, W).

    bilinear: whether it enlarges by interpolation in place of transposed convolutions.
    """

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64), classes: int = 2, bilinear: bool = False) -> None:
        super().__init__()
        steps = list(itertools.pairwise(widths))  # (shallow, deep)
        self.stem = double_conv(3, widths[0])
        self.down = nn.ModuleList(double_conv(shallow, deep) for shallow, deep in steps)
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for shallow, deep in reversed(steps):
            up = nn.Upsample(scale_factor=2, mode="bilinear") if bilinear else nn.ConvTranspose2d(deep, shallow, 2, 2)
            self.up.append(up)
            self.merge.append(double_conv(shallow + (deep if bilinear else shallow), shallow))
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(self.pool(x))
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat((skips.pop(), up(x)), dim=1))
        return self.head(x)


model = seeded(UNet, (1, 3, 64, 64))
