"""Streaming temporal convolutional network: Bai et al., arXiv:1803.01271, run chunk by chunk; cached states as in
Rybakov et al., "Streaming keyword spotting on mobile devices", arXiv:2005.06720.

Each causal convolution sees the last frames of the previous chunk, concatenated in front, and hands its own last
frames on: the states are graph inputs and outputs, the concat and the slice of it are pure data movement, and 1-D
convolutions leave a free choice of which spatial axis carries time.

Inputs: (1, 40, 16), a chunk of 16 frames of 40 features, then one state (1, 48, 2 * dilation) per block, dilations 1,
2, 4, 8. Outputs: (1, 12, 16) logits per frame, then the new states.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._seeded import seeded

FEATURES, CHANNELS, CLASSES, CHUNK, KERNEL = 40, 48, 12, 16, 3
DILATIONS = (1, 2, 4, 8)


class CausalBlock(nn.Module):
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


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    states = ((1, CHANNELS, (KERNEL - 1) * dilation) for dilation in DILATIONS)
    return seeded(StreamingTcn, (1, FEATURES, CHUNK), *states)
