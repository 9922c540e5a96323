"""A convolution and a PixelShuffle, for commands that take a model."""

import torch


def model() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.PixelShuffle(2))
    return layers.eval(), (torch.randn(1, 3, 8, 8),)
