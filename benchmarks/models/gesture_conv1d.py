"""Gesture recognition from wrist EMG: stages of a strided 1-D convolution and LayerNorm.

It is in the style of the discrete-gesture network of CTRL-labs at Reality Labs, without its LSTM.
Source: "A generic non-invasive neuromotor interface", Nature 2025.
Convolutions work on (channels, time), LayerNorm on (time, channels), so every norm has a transpose on either side.
A 1-D convolution becomes a 2-D one, which may have time on either spatial axis.

Input: (1, 16, 400), 400 samples of 16 electrodes.
Output: (1, 9) logits.
"""

from torch import nn

from benchmarks.models._blocks import Do, mean, seeded


def conv_norm(c_in: int, c_out: int, kernel: int, stride: int) -> nn.Sequential:
    """Returns a convolution, ReLU, and LayerNorm over channels: they map (N, C, T) to (N, C', T')."""
    turn = Do(lambda x: x.transpose(1, 2))
    return nn.Sequential(nn.Conv1d(c_in, c_out, kernel, stride), nn.ReLU(), turn, nn.LayerNorm(c_out), turn)


def gesture(electrodes: int = 16, channels: int = 64, classes: int = 9) -> nn.Sequential:
    first = conv_norm(electrodes, channels, 21, 10)
    others = conv_norm(channels, channels, 5, 2), conv_norm(channels, channels, 3, 1)
    return nn.Sequential(first, *others, mean(2), nn.Linear(channels, classes))


model = seeded(gesture, (1, 16, 400))
