"""An MLP-Mixer of two layers: Tolstikhin et al., arXiv:2105.01601.

It has only linear layers, along the channels and, between two transposes of the whole tensor, along the tokens.
So the innermost axis changes twice per layer.
The patch embedding has a stride of 8.

Input: (1, 3, 96, 96).
Output: (1, 10) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


def mlp(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class MixerLayer(nn.Module):
    """An MLP over tokens and one over channels, each with a residual: (N, tokens, channels) to the same shape."""

    def __init__(self, tokens: int, channels: int, token_hidden: int, channel_hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.mix_tokens = mlp(tokens, token_hidden)
        self.mix_channels = mlp(channels, channel_hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix_channels(self.norm2(x))


class MlpMixer(nn.Module):
    def __init__(self, size: int = 96, patch: int = 8, channels: int = 96, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        tokens = (size // patch) ** 2
        self.embed = nn.Conv2d(3, channels, patch, patch)
        self.layers = nn.Sequential(*(MixerLayer(tokens, channels, 64, 4 * channels) for _ in range(layers)))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(tokens)).mean(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(MlpMixer, (1, 3, 96, 96))
