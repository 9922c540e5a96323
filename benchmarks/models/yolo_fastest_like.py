"""A detector after YOLO-Fastest on grey images of 192 px.

It follows the object detection example of Arm's ML embedded evaluation kit for microcontrollers.
It has inverted residuals of very few channels at high resolution, an upsampling, a CONCAT, and two heads with anchors.
Cameras that are always on run such networks.

Input: (1, 1, 192, 192).
Outputs: (1, 18, 6, 6) and (1, 18, 12, 12), three anchors of box, score and class.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import conv, inverted, seeded


def head(channels: int, outputs: int) -> nn.Sequential:
    """Returns a detection head: a depthwise 5x5 convolution and two 1x1 convolutions."""
    return nn.Sequential(
        conv(channels, channels, 5, 1, channels), conv(channels, channels), nn.Conv2d(channels, outputs, 1)
    )


class YoloFastest(nn.Module):
    def __init__(self, outputs: int = 18) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            conv(1, 8, 3, 2),
            inverted(8, 8, 4),
            inverted(4, 24, 8, 2),
            inverted(8, 32, 8),
            inverted(8, 32, 8, 2),
            inverted(8, 48, 8),
            inverted(8, 48, 16),
            inverted(16, 96, 16),
            inverted(16, 96, 24, 2),
            inverted(24, 136, 24),
            conv(24, 136),
        )
        self.coarse = nn.Sequential(
            conv(136, 136, 3, 2, 136), inverted(136, 224, 48), inverted(48, 224, 48), conv(48, 96)
        )
        self.up = nn.Upsample(scale_factor=2)
        self.join = conv(136 + 96, 96)
        self.heads = nn.ModuleList((head(96, outputs), head(96, outputs)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        coarse = self.coarse(fine)
        joined = self.join(torch.cat((self.up(coarse), fine), dim=1))
        return self.heads[0](coarse), self.heads[1](joined)


model = seeded(YoloFastest, (1, 1, 192, 192))
