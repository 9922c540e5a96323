"""A vision transformer of the size of DeiT-tiny, with two of its blocks.

Sources: Dosovitskiy et al., arXiv:2010.11929; Touvron et al., arXiv:2012.12877.
The patch embedding is a convolution of kernel and stride 16; an NPU with strides up to 3 runs it as many operations.
The tokens are a class token and 14 x 14 patches, 197 in all, which no block size of channels divides.

Input: (1, 3, 224, 224).
Output: (1, 10) logits.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded
from benchmarks.models.attention import SelfAttention, TransformerBlock


class VisionTransformer(nn.Module):
    def __init__(
        self, size: int = 224, patch: int = 16, dim: int = 192, heads: int = 3, blocks: int = 2, classes: int = 10
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.class_token = nn.Parameter(torch.randn(1, 1, dim))
        self.positions = nn.Parameter(0.5 * torch.randn(1, 1 + (size // patch) ** 2, dim))
        self.blocks = nn.Sequential(*(TransformerBlock(dim, SelfAttention(dim, heads)) for _ in range(blocks)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.class_token, patches), dim=1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])


model = seeded(VisionTransformer, (1, 3, 224, 224))
