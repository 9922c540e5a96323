"""Seven small networks that are not in the zoo and on which no cost model was tuned.

They test what a model has learnt of the NPU.
Each function returns (module, example inputs), with weights of `seeded`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.models._seeded import seeded

NetworkWithInputs = tuple[nn.Module, tuple[Tensor, ...]]


class Inception(nn.Module):
    """Four branches of different kernels, concatenated: (1, 8, 20, 20) to (1, 40, 20, 20)."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b1, self.b3 = nn.Conv2d(8, 12, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 16, 3, padding=1)
        self.c1, self.c5, self.d = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 6, 5, padding=2), nn.Conv2d(8, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool2d(x, 3, stride=1, padding=1)
        branches = (self.a(x), self.b3(F.relu(self.b1(x))), self.c5(F.relu(self.c1(x))), self.d(pooled))
        return F.relu(torch.cat(branches, 1))


class Squeeze(nn.Module):
    """Two fire modules of SqueezeNet (Iandola et al., arXiv:1602.07360): a squeeze, and two expansions side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, stride=2, padding=1)
        self.squeeze = nn.ModuleList([nn.Conv2d(24, 8, 1), nn.Conv2d(32, 8, 1)])
        self.one = nn.ModuleList([nn.Conv2d(8, 16, 1), nn.Conv2d(8, 16, 1)])
        self.three = nn.ModuleList([nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        for squeeze, one, three in zip(self.squeeze, self.one, self.three, strict=True):
            s = F.relu(squeeze(x))
            x = F.relu(torch.cat([one(s), three(s)], 1))
        return x.mean((2, 3))


class Mixer(nn.Module):
    """One layer of an MLP-Mixer: linear layers over tokens and, transposed back, over channels."""

    def __init__(self, tokens: int = 36, width: int = 32) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.over_tokens = nn.Sequential(nn.Linear(tokens, 24), nn.ReLU(), nn.Linear(24, tokens))
        self.over_channels = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.over_tokens(x.transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(x)


class SpaceToDepth(nn.Module):
    """A pixel unshuffle, convolutions and a pixel shuffle: permutes of six axes around little computation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(12, 16, 3, padding=1), nn.Conv2d(16, 12, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(self.second(F.relu(self.first(F.pixel_unshuffle(x, 2)))), 2)


class Grouped(nn.Module):
    """A grouped and a depthwise convolution with a channel shuffle between, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(24, 24, 1, groups=3), nn.Conv2d(24, 24, 3, padding=1, groups=24)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = F.relu(self.first(x)).reshape(n, 3, c // 3, h, w).transpose(1, 2).reshape(n, c, h, w)
        return x + self.second(y)


class Excited(nn.Module):
    """A convolution with squeeze-and-excitation: a gate from a global average multiplies every channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.down, self.up, self.out = (
            nn.Conv2d(16, 32, 3, padding=1),
            nn.Linear(32, 8),
            nn.Linear(8, 32),
            nn.Conv2d(32, 8, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv(x))
        gate = torch.sigmoid(self.up(F.relu(self.down(y.mean((2, 3))))))
        return self.out(y * gate[:, :, None, None])


class Channels1d(nn.Module):
    """A 1-D network on a signal: strided convolutions, slices of both ends of it, and a head for each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(4, 16, 5, stride=2, padding=2), nn.Conv1d(16, 24, 3, padding=1)
        self.near, self.far = nn.Linear(24, 6), nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.second(F.relu(self.first(x)))).transpose(1, 2)
        return torch.cat([self.near(y[:, -8:]), self.far(y[:, :8])], 1)


def inception() -> NetworkWithInputs:
    return seeded(Inception, (1, 8, 20, 20))


def squeeze() -> NetworkWithInputs:
    return seeded(Squeeze, (1, 3, 32, 32))


def mixer() -> NetworkWithInputs:
    return seeded(Mixer, (1, 3, 24, 24))


def space_to_depth() -> NetworkWithInputs:
    return seeded(SpaceToDepth, (1, 3, 24, 24))


def grouped() -> NetworkWithInputs:
    return seeded(Grouped, (1, 24, 16, 16))


def excited() -> NetworkWithInputs:
    return seeded(Excited, (1, 16, 16, 16))


def channels_1d() -> NetworkWithInputs:
    return seeded(Channels1d, (1, 4, 64))


UNSEEN = ("inception", "squeeze", "mixer", "space_to_depth", "grouped", "excited", "channels_1d")
