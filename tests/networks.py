"""Small networks of PyTorch: layers, and a function of them and of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Network(torch.nn.Module):
    """made: what `forward` is, of this module, whose attributes the layers are, and of the inputs."""

    def __init__(self, made: Callable[..., Any], **layers: torch.nn.Module) -> None:
        super().__init__()
        self.made = made
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.made(self, *inputs)


def sorted_between(a: torch.nn.Module, b: torch.nn.Module) -> Network:
    """sort stays on the CPU, between two delegates."""
    return Network(lambda self, x: torch.relu(self.b(torch.sort(torch.relu(self.a(x)), dim=3)[0])), a=a, b=b)
