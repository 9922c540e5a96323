"""Speech separation after Conv-TasNet: Luo and Mesgarani, arXiv:1809.07454.

This is one repeat of the causal variant on half a second at 8 kHz.
It has a learnt filter bank instead of a spectrogram, and masks for two speakers.
Its blocks are dilated depthwise convolutions with one residual and one skip output each.
BatchNorm replaces norms over all time, which streaming rules out.

Input: (1, 1, 4000) samples.
Output: (1, 2, 128, 499), the masked spectra of two speakers; a transposed filter bank would make sound of them.
"""

from functools import reduce
from operator import add

from torch import Tensor, nn

from benchmarks.models._blocks import seeded

FILTERS, BOTTLENECK, HIDDEN, SPEAKERS, DEPTH = 128, 64, 128, 2, 6


class Block(nn.Module):
    """A causal dilated block: it maps (N, BOTTLENECK, T) to (residual output, skip output) of the same shape."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(BOTTLENECK, HIDDEN, 1),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
            nn.ConstantPad1d((2 * dilation, 0), 0.0),
            nn.Conv1d(HIDDEN, HIDDEN, 3, dilation=dilation, groups=HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
        )
        self.residual, self.skip = nn.Conv1d(HIDDEN, BOTTLENECK, 1), nn.Conv1d(HIDDEN, BOTTLENECK, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x)
        return x + self.residual(y), self.skip(y)


class ConvTasNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(1, FILTERS, 16, 8), nn.ReLU())
        self.bottleneck = nn.Conv1d(FILTERS, BOTTLENECK, 1)
        self.blocks = nn.ModuleList(Block(2**i) for i in range(DEPTH))
        self.masks = nn.Conv1d(BOTTLENECK, SPEAKERS * FILTERS, 1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = self.encoder(x)
        y = self.bottleneck(spectrum)
        skips = []
        for block in self.blocks:
            y, skip = block(y)
            skips.append(skip)
        masks = self.masks(reduce(add, skips).relu()).sigmoid()
        return masks.view(1, SPEAKERS, FILTERS, -1) * spectrum.unsqueeze(1)


model = seeded(ConvTasNet, (1, 1, 4000))
