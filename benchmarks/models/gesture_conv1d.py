"""Gesture recognition from wrist EMG: stages of a strided 1-D convolution and LayerNorm.

It is in the style of the discrete-gesture network of CTRL-labs at Reality Labs, without its LSTM.
Source: "A generic non-invasive neuromotor interface", Nature 2025.
Convolutions work on (channels, time), LayerNorm on (time, channels), so every norm has a transpose on either side.
A 1-D convolution becomes a 2-D one, which may have time on either spatial axis.

Input: (1, 16, 400), 400 samples of 16 electrodes.
Output: (1, 9) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


class ConvNorm(nn.Module):
    """A convolution, ReLU, and LayerNorm over channels: they map (N, C, T) to (N, C', T')."""

    def __init__(self, c_in: int, c_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, kernel, stride)
        self.norm = nn.LayerNorm(c_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).relu().transpose(1, 2)).transpose(1, 2)


class Gesture(nn.Module):
    def __init__(self, electrodes: int = 16, channels: int = 64, classes: int = 9) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvNorm(electrodes, channels, 21, 10),
            ConvNorm(channels, channels, 5, 2),
            ConvNorm(channels, channels, 3, 1),
        )
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean(2))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(Gesture, (1, 16, 400))
