"""Noise suppression after RNNoise on one frame: Valin, arXiv:1709.08243.

It has three gated recurrent units of different widths.
Later ones read the states of earlier ones, concatenated.
The states are inputs and outputs of the network.
Hearing aids and headsets run such networks every 10 ms; slices and sums outnumber the products.

Inputs: (1, 42) features, and states (1, 24), (1, 48) and (1, 96).
Outputs: (1, 23), which is 22 gains and the probability of speech, and the new states.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded
from benchmarks.models.gru_cell import GruCell


class RnNoise(nn.Module):
    def __init__(self, features: int = 42, bands: int = 22) -> None:
        super().__init__()
        self.dense = nn.Linear(features, 24)
        self.voice = GruCell(24, 24)
        self.noise = GruCell(24 + 24 + features, 48)
        self.denoise = GruCell(24 + 48 + features, 96)
        self.speech, self.gains = nn.Linear(24, 1), nn.Linear(96, bands)

    def forward(self, x: Tensor, voice: Tensor, noise: Tensor, denoise: Tensor) -> tuple[Tensor, ...]:
        dense = self.dense(x).tanh()
        voice = self.voice(dense, voice)
        noise = self.noise(torch.cat((dense, voice, x), dim=1), noise)
        denoise = self.denoise(torch.cat((voice, noise, x), dim=1), denoise)
        out = torch.cat((self.gains(denoise), self.speech(voice)), dim=1).sigmoid()
        return out, voice, noise, denoise


model = seeded(RnNoise, (1, 42), (1, 24), (1, 48), (1, 96))
