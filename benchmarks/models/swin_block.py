"""A pair of Swin transformer blocks, with plain and with shifted windows: Liu et al., arXiv:2103.14030.

Cutting the map into windows and joining them are view, permute, view.
The shift rolls the map along H and W before attention and back after it.
Each roll is written as two slices and a concat per axis.
The mask of the shifted windows is -10 rather than the usual -100, which would leave an int8 score no resolution.

Input: (1, 16, 16, 32), height, width, channels.
Output: the same shape.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded
from benchmarks.models.attention import TransformerBlock


def partition(x: Tensor, window: int) -> Tensor:
    """Returns (1, H, W, C) as (windows, window * window, C)."""
    _, h, w, c = x.shape
    x = x.reshape(h // window, window, w // window, window, c)
    return x.transpose(1, 2).reshape(-1, window * window, c)


def unpartition(x: Tensor, window: int, height: int, width: int) -> Tensor:
    """Returns the inverse of `partition`."""
    x = x.reshape(height // window, width // window, window, window, x.shape[2])
    return x.transpose(1, 2).reshape(1, height, width, -1)


def roll(x: Tensor, shift: int) -> Tensor:
    """Moves the first `shift` rows and columns to the end; a negative shift is the inverse."""
    x = torch.cat((x[:, shift:], x[:, :shift]), dim=1)
    return torch.cat((x[:, :, shift:], x[:, :, :shift]), dim=2)


def shifted_mask(size: int, window: int, shift: int) -> Tensor:
    """Returns the mask of shifted windows, (windows, 1, tokens, tokens).

    It is -10 between tokens that only the roll brought into one window, else 0.
    """
    region = torch.zeros(size)
    region[size - window :] = 1
    region[size - shift :] = 2
    regions = partition((3 * region[:, None] + region)[None, :, :, None], window)
    return torch.where(regions == regions.transpose(1, 2), 0.0, -10.0).unsqueeze(1)


class WindowAttention(nn.Module):
    """Self-attention within each window, shifted if `shift` is not 0: (1, size, size, dim) to the same shape.

    The scores have relative position biases.
    """

    def __init__(self, size: int, dim: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.query_key_value, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        y, x = (axis.flatten() for axis in torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        dy, dx = (axis[:, None] - axis + window - 1 for axis in (y, x))
        table = torch.randn(heads, (2 * window - 1) ** 2) * 0.5
        self.register_buffer("position_bias", table[:, dy * (2 * window - 1) + dx])
        self.register_buffer("mask", shifted_mask(size, window, shift) if shift else None)

    def attend(self, x: Tensor) -> Tensor:
        """Returns windows, (windows, tokens, dim), after attention."""
        windows, tokens, dim = x.shape
        qkv = self.query_key_value(x).reshape(windows, tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) * self.scale + self.position_bias
        if self.mask is not None:
            scores = scores + self.mask
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(windows, tokens, dim))

    def forward(self, x: Tensor) -> Tensor:
        _, h, w, _ = x.shape
        y = roll(x, self.shift) if self.shift else x
        y = unpartition(self.attend(partition(y, self.window)), self.window, h, w)
        return roll(y, -self.shift) if self.shift else y


def swin(size: int = 16, dim: int = 32, heads: int = 2, window: int = 4) -> nn.Sequential:
    attentions = (WindowAttention(size, dim, heads, window, shift) for shift in (0, 2))
    return nn.Sequential(*(TransformerBlock(dim, attention) for attention in attentions))


model = seeded(swin, (1, 16, 16, 32))
