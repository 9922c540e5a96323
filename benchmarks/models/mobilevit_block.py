"""One MobileViT block: Mehta and Rastegari, arXiv:2110.02178.

Between convolutions, transformers work over the pixels that have the same place in their 2x2 patch.
Unfolding to (places, patches, width) and folding back are permutes between views.
The input is concatenated at the end.

Input: (1, 32, 16, 16).
Output: the same shape.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import conv, seeded
from benchmarks.models.attention import SelfAttention, TransformerBlock


def unfold(x: Tensor, patch: int) -> Tensor:
    """Returns (1, C, H, W) as (patch * patch, H/patch * W/patch, C)."""
    _, c, h, w = x.shape
    x = x.reshape(c, h // patch, patch, w // patch, patch).permute(2, 4, 1, 3, 0)
    return x.reshape(patch * patch, -1, c)


def fold(x: Tensor, patch: int, height: int, width: int) -> Tensor:
    """Returns the inverse of `unfold`."""
    c = x.shape[2]
    x = x.reshape(patch, patch, height // patch, width // patch, c).permute(4, 2, 0, 3, 1)
    return x.reshape(1, c, height, width)


class MobileViTBlock(nn.Module):
    """A block whose transformers have width `dim`: it maps (1, channels, H, W) to the same shape."""

    def __init__(self, channels: int = 32, dim: int = 48, heads: int = 4, depth: int = 2, patch: int = 2) -> None:
        super().__init__()
        self.patch = patch
        self.local = nn.Sequential(conv(channels, channels, 3, act=nn.SiLU), nn.Conv2d(channels, dim, 1, bias=False))
        self.transformers = nn.Sequential(*(TransformerBlock(dim, SelfAttention(dim, heads), 2) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.project = conv(dim, channels, act=nn.SiLU)
        self.fuse = conv(2 * channels, channels, 3, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        _, _, h, w = x.shape
        y = self.norm(self.transformers(unfold(self.local(x), self.patch)))
        y = self.project(fold(y, self.patch, h, w))
        return self.fuse(torch.cat((x, y), dim=1))


model = seeded(MobileViTBlock, (1, 32, 16, 16))
