"""One pre-norm transformer encoder block: Vaswani et al., arXiv:1706.03762.

Splitting into heads and merging them are view + permute on both sides of two batched matmuls.
One of the matmuls takes a transposed operand.
LayerNorm and softmax are reductions that prefer layouts of their own.

Input: (1, 32, 64), 32 tokens of width 64.
Output: the same shape.
"""

from torch import Tensor, nn

from benchmarks.models._blocks import seeded


class SelfAttention(nn.Module):
    """Multi-head self-attention: it maps (N, tokens, dim) to the same shape."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, dim = x.shape

        def split(y: Tensor) -> Tensor:
            return y.view(n, tokens, self.heads, dim // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        weights = (q @ k.transpose(-1, -2) * self.scale).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, tokens, dim))


class TransformerBlock(nn.Module):
    """Attention and an MLP, each with a LayerNorm before it and a residual: (N, tokens, dim) to the same shape."""

    def __init__(self, dim: int, attention: nn.Module, expansion: int = 4) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = attention
        self.mlp = nn.Sequential(nn.Linear(dim, expansion * dim), nn.GELU(), nn.Linear(expansion * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


model = seeded(lambda: TransformerBlock(64, SelfAttention(64, heads=4)), (1, 32, 64))
