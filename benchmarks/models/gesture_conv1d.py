"""Gesture recognition from wrist EMG: strided 1-D convolution + LayerNorm stages, in the style of the discrete-
gesture network of CTRL-labs at Reality Labs, "A generic non-invasive neuromotor interface", Nature 2025, without its
LSTM.

Convolutions want (channels, time), LayerNorm (time, channels): a transpose on each side of every norm. A 1-D
convolution may carry time on either spatial axis of the 2-D one that it becomes.

Input: (1, 16, 400), 16 electrodes, 400 samples. Output: (1, 9) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


class ConvNorm(nn.Module):
    """Convolution, ReLU, LayerNorm over channels: (N, C, T) -> (N, C', T')."""

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
