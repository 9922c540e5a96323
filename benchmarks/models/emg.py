"""A typing network on surface EMG in the style of emg2qwerty: Sivakumar et al., arXiv:2410.20081.

Its time-depth-separable convolutions are from Hannun et al., arXiv:1904.02619.
It is smaller, and has no rotation-invariant pooling.
Time is the first axis outside the convolutions and the last one inside them.
So every block begins and ends with movedim + reshape; residual, LayerNorm and linear layers lie between.
A BatchNorm on the raw spectrogram has no convolution to fold into.
Two bands are split, transformed apart and stacked again.

Input: (T=64, N=1, 2 bands, 16 electrodes, 33 frequencies).
Output: (32, 1, 99) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import Residual, seeded

BANDS, ELECTRODES, FREQUENCIES = 2, 16, 33


class SpectrogramNorm(nn.Module):
    """BatchNorm per electrode: it maps (T, N, bands, electrodes, freq) to the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(BANDS * ELECTRODES)

    def forward(self, x: Tensor) -> Tensor:
        t, n, bands, electrodes, freq = x.shape
        y = self.norm(x.movedim(0, -1).reshape(n, bands * electrodes, freq, t))
        return y.reshape(n, bands, electrodes, freq, t).movedim(-1, 0)


class BandMlps(nn.Module):
    """One MLP for each band: they map (T, N, bands, electrodes, freq) to (T, N, bands * features)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        size = ELECTRODES * FREQUENCIES
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(size, features), nn.ReLU()) for _ in range(BANDS))

    def forward(self, x: Tensor) -> Tensor:
        bands = [mlp(band.flatten(2)) for mlp, band in zip(self.mlps, x.unbind(2), strict=True)]
        return torch.stack(bands, dim=2).flatten(2)


class TDSConv2d(nn.Module):
    """A time-depth-separable convolution: it maps (T, N, C) to (T - kernel + 1, N, C).

    It convolves over time, with the C features as channels x width.
    """

    def __init__(self, channels: int, width: int, kernel: int) -> None:
        super().__init__()
        self.channels, self.width = channels, width
        self.conv = nn.Conv2d(channels, channels, (1, kernel))
        self.norm = nn.LayerNorm(channels * width)

    def forward(self, x: Tensor) -> Tensor:
        t, n, c = x.shape
        y = self.conv(x.movedim(0, -1).reshape(n, self.channels, self.width, t)).relu()
        y = y.reshape(n, c, y.shape[-1]).movedim(-1, 0)
        return self.norm(y + x[t - y.shape[0] :])


def fully_connected(features: int) -> nn.Sequential:
    """Returns an MLP with a residual, then LayerNorm: it maps (T, N, features) to the same shape."""
    mlp = nn.Linear(features, features), nn.ReLU(), nn.Linear(features, features)
    return nn.Sequential(Residual(*mlp), nn.LayerNorm(features))


def emg(channels: int = 24, width: int = 16, kernel: int = 17, blocks: int = 2, classes: int = 99) -> nn.Sequential:
    features = channels * width
    layers: list[nn.Module] = [SpectrogramNorm(), BandMlps(features // BANDS)]
    for _ in range(blocks):
        layers += [TDSConv2d(channels, width, kernel), fully_connected(features)]
    return nn.Sequential(*layers, nn.Linear(features, classes))


model = seeded(emg, (64, 1, BANDS, ELECTRODES, FREQUENCIES))
