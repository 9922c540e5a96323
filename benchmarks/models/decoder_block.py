"""One decoder block of a language model on one token: Touvron et al., arXiv:2302.13971.

The cache of keys and values is an input.
The block has RMSNorm, rotary embeddings (slices and a CONCAT), products of one row with the cache, and a gated SiLU.
Every product is one of a vector and a matrix, and a copy of the cache costs more than all of them.

Inputs: (1, 1, 64), keys and values (1, 4, 31, 16).
Outputs: (1, 1, 64), and the keys and values with those of the token, (1, 4, 32, 16).
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded

#: Width, number of heads, and tokens in the cache.
DIM, HEADS, PAST = 64, 4, 31


class RmsNorm(nn.Module):
    """RMSNorm over the last axis: Zhang and Sennrich, arXiv:1910.07467."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(DIM) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * ((x * x).mean(dim=-1, keepdim=True) + 1e-3).rsqrt() * self.weight


class DecoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.query, self.key, self.value, self.out = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, 3 * DIM, bias=False)
        self.down = nn.Linear(3 * DIM, DIM, bias=False)
        angles = PAST * 10000.0 ** (-torch.arange(0, 1, 2 * HEADS / DIM))
        self.register_buffer("cos", angles.cos().repeat(2))
        self.register_buffer("sin", angles.sin().repeat(2))

    def rotated(self, x: Tensor) -> Tensor:
        """Returns x with the rotary position embedding of the token behind the cache: Su et al., arXiv:2104.09864."""
        a, b = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-b, a), dim=-1) * self.sin

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.norm1(x)
        query, key, value = (
            f(y).view(1, 1, HEADS, DIM // HEADS).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        keys, values = torch.cat((keys, self.rotated(key)), dim=2), torch.cat((values, value), dim=2)
        weights = (self.rotated(query) @ keys.transpose(-1, -2) * (DIM // HEADS) ** -0.5).softmax(dim=-1)
        x = x + self.out((weights @ values).transpose(1, 2).reshape(1, 1, DIM))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), keys, values


CACHE = (1, HEADS, PAST, DIM // HEADS)
model = seeded(DecoderBlock, (1, 1, DIM), CACHE, CACHE)
