"""Strided 1-D convolutions on raw audio, as in the feature encoder of wav2vec: Schneider et al., arXiv:1904.05862.

The long strides are those of neural audio codecs: Defossez et al., arXiv:2210.13438.
The strides are 5, 8 and 10, and each kernel is twice as long as its stride.
Vela runs strides up to 3 and splits convolutions of longer ones into many operators.
The input of the first layer has one channel.

Input: (1, 1, 8000), half a second at 16 kHz.
Output: (1, 32, 18) features.
"""

from torch import nn

from benchmarks.models._blocks import seeded


def layer(c_in: int, c_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(c_in, c_out, 2 * stride, stride), nn.BatchNorm1d(c_out), nn.GELU())


def audio_encoder(channels: int = 32) -> nn.Sequential:
    layers = layer(1, channels, 5), layer(channels, channels, 8), layer(channels, 64, 10)
    return nn.Sequential(*layers, nn.Conv1d(64, channels, 1))


model = seeded(audio_encoder, (1, 1, 8000))
