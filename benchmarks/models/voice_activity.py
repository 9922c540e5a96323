"""Voice activity detection after Silero's: convolutions over a spectrogram, then an `nn.LSTM`.

The convolutions reduce 14 frames to seven.
The state of the LSTM is an input and an output.

Inputs: (1, 64, 14) magnitudes, and states (1, 1, 64) and (1, 1, 64).
Outputs: (1, 7, 1) probabilities, and the new states.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded


class VoiceActivity(nn.Module):
    def __init__(self, bins: int = 64, hidden: int = 64) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv1d(bins, 128, 3, padding=1), nn.ReLU()),
            *(nn.Conv1d(128, 64, 3, stride=2, padding=1), nn.ReLU()),
        )
        self.layer = nn.LSTM(64, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        frames = self.encoder(x).transpose(1, 2)
        states, (hidden, cell) = self.layer(frames, (hidden, cell))
        return torch.sigmoid(self.head(states.relu())), hidden, cell


model = seeded(VoiceActivity, (1, 64, 14), (1, 1, 64), (1, 1, 64))
