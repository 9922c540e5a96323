"""Two blocks of a Conformer encoder without relative positional encoding: Gulati et al., arXiv:2005.08100.

Attention works on (heads, tokens, width), the convolution module on (channels, time).
The feed-forward modules and LayerNorm work on (tokens, channels), so every block moves between all three layouts.
The gated linear unit splits and joins channels.

Input: (1, 32, 64), 32 frames of width 64.
Output: the same shape.
"""

from torch import Tensor, nn

from benchmarks.models._blocks import seeded
from benchmarks.models.attention import SelfAttention


def feed_forward(dim: int, expansion: int = 4) -> nn.Sequential:
    """Returns a feed-forward module: it maps (N, T, dim) to the same shape."""
    mlp = nn.Linear(dim, expansion * dim), nn.SiLU(), nn.Linear(expansion * dim, dim)
    return nn.Sequential(nn.LayerNorm(dim), *mlp)


class ConvModule(nn.Module):
    """Gated pointwise, depthwise and pointwise convolutions over time: it maps (N, T, dim) to the same shape."""

    def __init__(self, dim: int, kernel: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.expand = nn.Conv1d(dim, 2 * dim, 1)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim, bias=False)
        self.depthwise_norm = nn.BatchNorm1d(dim)
        self.activation = nn.SiLU()
        self.project = nn.Conv1d(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.expand(self.norm(x).transpose(1, 2)).chunk(2, dim=1)
        y = self.depthwise_norm(self.depthwise(value * gate.sigmoid()))
        return self.project(self.activation(y)).transpose(1, 2)


class ConformerBlock(nn.Module):
    """Feed-forward, attention, convolution and feed-forward, each with a residual: (N, T, dim) to the same shape."""

    def __init__(self, dim: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.first, self.last = feed_forward(dim), feed_forward(dim)
        self.attention = nn.Sequential(nn.LayerNorm(dim), SelfAttention(dim, heads))
        self.convolution = ConvModule(dim, kernel)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        x = x + self.attention(x)
        x = x + self.convolution(x)
        return self.norm(x + 0.5 * self.last(x))


model = seeded(lambda: nn.Sequential(*(ConformerBlock(dim=64, heads=4, kernel=15) for _ in range(2))), (1, 32, 64))
