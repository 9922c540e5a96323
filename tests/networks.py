"""Small networks of PyTorch: layers, parameters and buffers, and a function of them and of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class Network(torch.nn.Module):
    """made: what `forward` is, of this module, whose attributes the parts are, and of the inputs.

    parts: layers and parameters; other tensors are buffers.
    """

    def __init__(self, made: Callable[..., Any], **parts: torch.nn.Module | torch.Tensor) -> None:
        super().__init__()
        self.made = made
        for name, part in parts.items():
            if isinstance(part, torch.nn.Module | torch.nn.Parameter):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.made(self, *inputs)


def written(place: Path, module: str, *shape: int) -> str:
    """Writes a Python file with a module and a random input of this shape; returns what commands take for it."""
    made = f"    torch.manual_seed(0)\n    return {module}.eval(), (torch.randn{shape},)\n"
    place.write_text(f"import torch\nfrom torch.nn import *\n\n\ndef model():\n{made}")
    return f"{place}:model"


def sorted_between(a: torch.nn.Module, b: torch.nn.Module) -> Network:
    """sort stays on the CPU, between two delegates."""
    return Network(lambda self, x: torch.relu(self.b(torch.sort(torch.relu(self.a(x)), dim=3)[0])), a=a, b=b)


def pixel_shuffle() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A network whose stock lowering takes many times the cycles, and its inputs."""
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(4, 16, 3, padding=1), torch.nn.PixelShuffle(2), torch.nn.ReLU()
    return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 4, 8, 8),)
