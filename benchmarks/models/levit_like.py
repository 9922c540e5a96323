"""Attention after a pyramid of convolutions, one stage of LeViT at 128 px: Graham et al., arXiv:2104.01136.

The stem has four strided convolutions.
The stage works on tokens: keys are narrower than values, the attention bias is learnt, activations are hardswish.
No norm is left in the deployed form.
NCHW becomes tokens once, and each attention splits tokens into heads and merges them.

Input: (1, 3, 128, 128).
Output: (1, 100) logits.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import Residual, conv, mean, seeded, tokens

#: Width, number of heads, channels of a key, and number of tokens.
DIM, HEADS, KEY, TOKENS = 96, 3, 16, 64
#: Channels of a value.
VALUE = 2 * KEY


class Attention(nn.Module):
    """Self-attention with a learnt bias and a residual: it maps (1, TOKENS, DIM) to the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(DIM, HEADS * (2 * KEY + VALUE))
        self.bias = nn.Parameter(0.5 * torch.randn(1, HEADS, TOKENS, TOKENS))
        self.out = nn.Linear(HEADS * VALUE, DIM)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(x).view(1, TOKENS, HEADS, 2 * KEY + VALUE)
        query, key, value = (y.transpose(1, 2) for y in qkv.split([KEY, KEY, VALUE], dim=3))
        weights = (query @ key.transpose(-1, -2) * KEY**-0.5 + self.bias).softmax(dim=-1)
        y = (weights @ value).transpose(1, 2).reshape(1, TOKENS, HEADS * VALUE)
        return x + self.out(nn.functional.hardswish(y))


def mlp() -> Residual:
    """Returns an MLP with a residual: it maps (1, TOKENS, DIM) to the same shape."""
    return Residual(nn.Linear(DIM, 2 * DIM), nn.Hardswish(), nn.Linear(2 * DIM, DIM))


def levit(classes: int = 100) -> nn.Sequential:
    stem = (conv(a, b, 3, 2, act=nn.Hardswish) for a, b in pairwise((3, 16, 32, 64, DIM)))
    return nn.Sequential(*stem, tokens(), Attention(), mlp(), Attention(), mlp(), mean(1), nn.Linear(DIM, classes))


model = seeded(levit, (1, 3, 128, 128))
