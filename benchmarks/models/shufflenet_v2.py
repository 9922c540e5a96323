"""ShuffleNetV2 x0.5: Ma et al., arXiv:1807.11164.

Every unit splits its channels in two, transforms one half, concatenates, and shuffles the channels.
The shuffle (view, transpose, view) is a channel permutation that the weights of the next convolutions can absorb.

Input: (1, 3, 128, 128).
Output: (1, 1000) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._seeded import seeded


def channel_shuffle(x: Tensor, groups: int = 2) -> Tensor:
    """Returns (N, C, H, W) with the channels of all groups interleaved."""
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


def conv_bn_relu(c_in: int, c_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out), nn.ReLU())


def depthwise_bn(c: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(c, c, 3, stride, 1, groups=c, bias=False), nn.BatchNorm2d(c))


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
            self.left = nn.Sequential(depthwise_bn(c_in, stride), conv_bn_relu(c_in, half, 1))
        c_right = half if self.split else c_in
        self.right = nn.Sequential(
            conv_bn_relu(c_right, half, 1), depthwise_bn(half, stride), conv_bn_relu(half, half, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1) if self.split else (x, x)
        return channel_shuffle(torch.cat((self.left(left), self.right(right)), dim=1))


class ShuffleNetV2(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn_relu(3, 24, 3, stride=2), nn.MaxPool2d(3, 2, 1))
        self.stages = nn.Sequential()
        channels = 24
        for width, repeats in ((48, 4), (96, 8), (192, 4)):
            for i in range(repeats):
                self.stages.append(ShuffleUnit(channels, width, stride=2 if i == 0 else 1))
                channels = width
        self.last = conv_bn_relu(channels, 1024, 1)
        self.head = nn.Linear(1024, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.last(self.stages(self.stem(x))).mean((2, 3)))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(ShuffleNetV2, (1, 3, 128, 128))
