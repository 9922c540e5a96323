"""An MLP-Mixer of two layers: Tolstikhin et al., arXiv:2105.01601.

It has only linear layers, along the channels and, between two transposes of the whole tensor, along the tokens.
So the innermost axis changes twice per layer.
The patch embedding has a stride of 8.

Input: (1, 3, 96, 96).
Output: (1, 10) logits.
"""

from torch import nn

from benchmarks.models._blocks import Do, mean, seeded, tokens
from benchmarks.models.attention import TransformerBlock


def mixer_layer(tokens: int, hidden: int, channels: int) -> TransformerBlock:
    """Returns an MLP over tokens in place of attention, and one over channels: (N, tokens, channels)."""
    turn = Do(lambda x: x.transpose(1, 2))
    mix = nn.Sequential(turn, nn.Linear(tokens, hidden), nn.GELU(), nn.Linear(hidden, tokens), turn)
    return TransformerBlock(channels, mix)


def mlp_mixer(size: int = 96, patch: int = 8, channels: int = 96, layers: int = 2, classes: int = 10) -> nn.Sequential:
    count = (size // patch) ** 2
    mixers = (mixer_layer(count, 64, channels) for _ in range(layers))
    head = nn.LayerNorm(channels), mean(1), nn.Linear(channels, classes)
    return nn.Sequential(nn.Conv2d(3, channels, patch, patch), tokens(), *mixers, *head)


model = seeded(mlp_mixer, (1, 3, 96, 96))
