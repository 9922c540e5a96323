"""Face landmarks after PFLD of width 0.25: Guo et al., arXiv:1902.10859.

It has inverted residuals, and a head that pools three resolutions and concatenates them to one vector.
Such a network is the usual second stage behind a face detector.

Input: (1, 3, 112, 112).
Output: (1, 196), the coordinates of 98 points.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import conv, inverted, seeded


class Landmarks(nn.Module):
    def __init__(self, points: int = 98) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 16, 3, 1, 16), inverted(16, 32, 16, 2))
        self.body = nn.Sequential(
            *(inverted(16, 32, 16) for _ in range(4)),
            inverted(16, 32, 32, 2),
            inverted(32, 128, 32),
            *(inverted(32, 128, 32) for _ in range(3)),
            inverted(32, 64, 8),
        )
        self.smaller, self.whole = conv(8, 16, 3, 2), nn.Conv2d(16, 32, 7)
        self.pools = nn.ModuleList((nn.AvgPool2d(14), nn.AvgPool2d(7)))
        self.head = nn.Linear(8 + 16 + 32, 2 * points)

    def forward(self, x: Tensor) -> Tensor:
        first = self.body(self.stem(x))
        second = self.smaller(first)
        third = self.whole(second).relu()
        scales = (self.pools[0](first), self.pools[1](second), third)
        return self.head(torch.cat([s.flatten(1) for s in scales], dim=1))


model = seeded(Landmarks, (1, 3, 112, 112))
