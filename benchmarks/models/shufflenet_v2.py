"""ShuffleNetV2 x0.5: Ma et al., arXiv:1807.11164.

Every unit splits its channels in two, transforms one half, concatenates, and shuffles the channels.
The shuffle (view, transpose, view) is a channel permutation that the weights of the next convolutions can absorb.

Input: (1, 3, 128, 128).
Output: (1, 1000) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import conv, mean, seeded


def channel_shuffle(x: Tensor, groups: int = 2) -> Tensor:
    """Returns (N, C, H, W) with the channels of all groups interleaved."""
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class ShuffleUnit(nn.Module):
    """A unit with two branches, whose results are concatenated and shuffled.

    Of stride 1: one branch passes half of the channels on unchanged.
    Of stride 2: both branches read all channels and halve H and W.
    """

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        half = c_out // 2
        self.split = stride == 1
        self.left: nn.Module = nn.Identity()
        if not self.split:
            self.left = nn.Sequential(conv(c_in, c_in, 3, stride, c_in, None), conv(c_in, half, act=nn.ReLU))
        c_right = half if self.split else c_in
        self.right = nn.Sequential(
            conv(c_right, half, act=nn.ReLU), conv(half, half, 3, stride, half, None), conv(half, half, act=nn.ReLU)
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1) if self.split else (x, x)
        return channel_shuffle(torch.cat((self.left(left), self.right(right)), dim=1))


def shufflenet_v2(classes: int = 1000) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 24, 3, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for width, repeats in ((48, 4), (96, 8), (192, 4)):
        for i in range(repeats):
            layers.append(ShuffleUnit(channels, width, stride=2 if i == 0 else 1))
            channels = width
    return nn.Sequential(*layers, conv(channels, 1024, act=nn.ReLU), mean(2, 3), nn.Linear(1024, classes))


model = seeded(shufflenet_v2, (1, 3, 128, 128))
