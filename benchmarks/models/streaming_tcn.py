"""A streaming temporal convolutional network, run chunk by chunk: Bai et al., arXiv:1803.01271.

Its states are cached as in Rybakov et al., "Streaming keyword spotting on mobile devices", arXiv:2005.06720.
Each causal convolution reads the last frames of the previous chunk, concatenated in front.
It passes its own last frames on.
The states are inputs and outputs of the graph; their concat and slice are pure data movement.
1-D convolutions leave it open which spatial axis is time.

Inputs: (1, 40, 16), a chunk of 16 frames of 40 features.
Then one state (1, 48, 2 * dilation) per block, for the dilations 1, 2, 4 and 8.
Outputs: (1, 12, 16) logits per frame, then the new states.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded

FEATURES, CHANNELS, CLASSES, CHUNK, KERNEL = 40, 48, 12, 16, 3
DILATIONS = (1, 2, 4, 8)


class CausalBlock(nn.Module):
    """A causal dilated convolution: it maps (1, CHANNELS, T) and its state to the same shape and the new state."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.past = (KERNEL - 1) * dilation  # frames of state
        self.conv = nn.Conv1d(CHANNELS, CHANNELS, KERNEL, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm1d(CHANNELS)
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        frames = torch.cat((state, x), dim=2)
        y = self.mix(self.norm(self.conv(frames)).relu())
        return (x + y).relu(), frames[:, :, frames.shape[2] - self.past :]


class StreamingTcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(FEATURES, CHANNELS, 1)
        self.blocks = nn.ModuleList(CausalBlock(dilation) for dilation in DILATIONS)
        self.head = nn.Conv1d(CHANNELS, CLASSES, 1)

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        x = self.stem(x).relu()
        new_states = []
        for block, state in zip(self.blocks, states, strict=True):
            x, new_state = block(x, state)
            new_states.append(new_state)
        return self.head(x), *new_states


STATES = [(1, CHANNELS, (KERNEL - 1) * dilation) for dilation in DILATIONS]
model = seeded(StreamingTcn, (1, FEATURES, CHUNK), *STATES)
