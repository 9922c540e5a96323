"""A hybrid of pooling and attention after EfficientFormer: Li et al., arXiv:2206.01191.

It has two stages on images and one on tokens, at 64 px.
The image blocks mix positions by pooling, x + (pool(x) - x), which needs no weights.
The token block has attention with a learnt bias between LayerNorms.

Input: (1, 3, 64, 64).
Output: (1, 100) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import conv, mean, seeded, tokens
from benchmarks.models.attention import TransformerBlock

#: Channels of each stage, and number of tokens.
WIDTHS, TOKENS = (32, 64, 128), 16


class PoolBlock(nn.Module):
    """Pooling as a token mixer and an MLP, each with a residual: (N, C, H, W) to the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.enter = nn.Sequential(nn.Conv2d(channels, 4 * channels, 1), nn.GELU())
        self.leave = nn.Conv2d(4 * channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + (self.pool(x) - x)
        return x + self.leave(self.enter(x))


class Attention(nn.Module):
    """Self-attention with a learnt bias: it maps (N, TOKENS, C) to the same shape."""

    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.head = heads, channels // heads
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.bias = nn.Parameter(0.5 * torch.randn(1, heads, TOKENS, TOKENS))

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, c = x.shape
        query, key, value = (
            y.view(n, tokens, self.heads, self.head).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=2)
        )
        weights = (query @ key.transpose(-1, -2) * self.head**-0.5 + self.bias).softmax(dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(n, tokens, c))


def efficientformer(classes: int = 100) -> nn.Sequential:
    a, b, c = WIDTHS
    stem = [conv(3, a // 2, 3, 2), conv(a // 2, a, 3, 2)]
    images = [PoolBlock(a), conv(a, b, 3, 2, act=None), PoolBlock(b), conv(b, c, 3, 2, act=None)]
    last = TransformerBlock(c, Attention(c)), nn.LayerNorm(c), mean(1), nn.Linear(c, classes)
    return nn.Sequential(*stem, *images, tokens(), *last)


model = seeded(efficientformer, (1, 3, 64, 64))
