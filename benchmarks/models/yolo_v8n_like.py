"""A detector after YOLOv8n of Ultralytics at 192 px, as Terven et al. describe it, arXiv:2304.00501.

C2f splits channels and concatenates every part again, SPPF pools three times and concatenates.
The neck upsamples and concatenates three scales, the heads flatten and concatenate.
It has more CONCATs and slices than any network of the zoo.

Input: (1, 3, 192, 192).
Outputs: (1, 64, 756) distributions of the sides of boxes, and (1, 20, 756) logits of classes.
"""

import torch
from torch import Tensor, nn

from benchmarks.models import _blocks
from benchmarks.models._blocks import seeded

WIDTHS = (16, 32, 64, 128, 256)


def conv(c_in: int, c_out: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    return _blocks.conv(c_in, c_out, kernel, stride, act=nn.SiLU)


def bottleneck(channels: int, shortcut: bool) -> nn.Sequential:
    """Returns two 3x3 convolutions, with a residual if `shortcut`: (N, C, H, W) to the same shape."""
    layers = conv(channels, channels, 3), conv(channels, channels, 3)
    return (_blocks.Residual if shortcut else nn.Sequential)(*layers)


class C2f(nn.Module):
    """A cross-stage partial block: half of the channels pass through bottlenecks, and all results are joined."""

    def __init__(self, c_in: int, c_out: int, depth: int = 1, shortcut: bool = False) -> None:
        super().__init__()
        self.enter, self.leave = conv(c_in, c_out), conv(c_out // 2 * (2 + depth), c_out)
        self.blocks = nn.ModuleList(bottleneck(c_out // 2, shortcut) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.leave(torch.cat(parts, dim=1))


class Sppf(nn.Module):
    """Spatial pyramid pooling, fast: three poolings of 5x5 one after the other, all joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter, self.leave = conv(channels, channels // 2), conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, dim=1))


def head(c_in: int, hidden: int, c_out: int) -> nn.Sequential:
    return nn.Sequential(conv(c_in, hidden, 3), conv(hidden, hidden, 3), nn.Conv2d(hidden, c_out, 1))


class YoloV8n(nn.Module):
    def __init__(self, classes: int = 20, bins: int = 16) -> None:
        super().__init__()
        a, b, c, d, e = WIDTHS
        self.fine = nn.Sequential(
            conv(3, a, 3, 2), conv(a, b, 3, 2), C2f(b, b, 1, True), conv(b, c, 3, 2), C2f(c, c, 2, True)
        )
        self.middle = nn.Sequential(conv(c, d, 3, 2), C2f(d, d, 2, True))
        self.coarse = nn.Sequential(conv(d, e, 3, 2), C2f(e, e, 1, True), Sppf(e))
        self.up = nn.Upsample(scale_factor=2)
        self.up1, self.up2 = C2f(d + e, d), C2f(c + d, c)
        self.down1, self.down2 = conv(c, c, 3, 2), conv(d, d, 3, 2)
        self.join1, self.join2 = C2f(c + d, d), C2f(d + e, e)
        self.boxes = nn.ModuleList(head(w, c, 4 * bins) for w in (c, d, e))
        self.classes = nn.ModuleList(head(w, c, classes) for w in (c, d, e))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        middle = self.up1(torch.cat((self.up(coarse), middle), dim=1))
        fine = self.up2(torch.cat((self.up(middle), fine), dim=1))
        middle = self.join1(torch.cat((self.down1(fine), middle), dim=1))
        coarse = self.join2(torch.cat((self.down2(middle), coarse), dim=1))
        scales = (fine, middle, coarse)
        boxes, classes = (
            torch.cat([f(s).flatten(2) for f, s in zip(heads, scales, strict=True)], dim=2)
            for heads in (self.boxes, self.classes)
        )
        return boxes, classes


model = seeded(YoloV8n, (1, 3, 192, 192))
