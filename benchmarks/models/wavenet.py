"""The stack of gated, dilated causal convolutions of WaveNet: van den Oord et al., arXiv:1609.03499.

It runs on a whole sequence at once.
The dilations go from 1 to 64; Vela runs those up to 2 as one operator.
Every layer pads the past in front.
Its output is read twice, as the residual and as one of seven skips that are added up.

Input: (1, 16, 256), 256 samples of 16 features.
Output: (1, 16, 256).
"""

from torch import Tensor, nn

from benchmarks.models._blocks import seeded

FEATURES, CHANNELS, SKIPS, KERNEL = 16, 32, 32, 2
DILATIONS = (1, 2, 4, 8, 16, 32, 64)


class GatedLayer(nn.Module):
    """A gated convolution: it maps (N, channels, time) to (residual of the same shape, skip)."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.past = nn.ZeroPad1d(((KERNEL - 1) * dilation, 0))
        self.filter = nn.Conv1d(CHANNELS, CHANNELS, KERNEL, dilation=dilation)
        self.gate = nn.Conv1d(CHANNELS, CHANNELS, KERNEL, dilation=dilation)
        self.residual, self.skip = nn.Conv1d(CHANNELS, CHANNELS, 1), nn.Conv1d(CHANNELS, SKIPS, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        past = self.past(x)
        y = self.filter(past).tanh() * self.gate(past).sigmoid()
        return x + self.residual(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(FEATURES, CHANNELS, 1)
        self.layers = nn.ModuleList(GatedLayer(dilation) for dilation in DILATIONS)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(SKIPS, SKIPS, 1), nn.ReLU(), nn.Conv1d(SKIPS, FEATURES, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        total: Tensor | None = None
        for layer in self.layers:
            x, skip = layer(x)
            total = skip if total is None else total + skip
        return self.head(total)


model = seeded(WaveNet, (1, FEATURES, 256))
