"""Small modules for the tests of programs before lowering; `CASES`: name -> (module, inputs)."""

from __future__ import annotations

from functools import cache

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch import Tensor, nn
from torch.export import ExportedProgram

from eqsat.executorch.quantize import quantize


class ThereAndBack(nn.Module):
    """Two permutes that cancel around pointwise ops, one of them with a constant that has to turn."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        return (torch.relu(x.permute(0, 2, 3, 1)) * self.scale).permute(0, 3, 1, 2)


class Shuffle(nn.Module):
    """Convolutions around two channel shuffles that cancel."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x))
        y = torch.nn.functional.channel_shuffle(y, 2)
        y = torch.sigmoid(y)
        y = y.view(1, 4, 2, 6, 6).transpose(1, 2).reshape(1, 8, 6, 6)
        return self.b(y)


class Pieces(nn.Module):
    """Slices, pads, stacks and splits of permuted tensors, and what ATen spells differently."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.movedim(1, -1).chunk(2, dim=-1)
        c = torch.cat([a, b], dim=-1).swapaxes(1, 3).flip(1)
        d = torch.stack([c[:, 0], c[:, -1]], dim=1).unsqueeze(0).squeeze(0)
        e = torch.nn.functional.pad(d, (1, 0, 0, 2), value=0.5).repeat(1, 2, 1, 1)
        return torch.tanh(e).flatten(1).unflatten(1, (4, -1))


class Normed(nn.Module):
    """A normalization between permutes: reductions along a moved axis."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) + x


class CpuBetween(nn.Module):
    """sort has no form on the NPU; its values are read, its indices are an output."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.a(x)).permute(0, 2, 3, 1)
        values, indices = torch.sort(y.permute(0, 3, 1, 2), dim=3)
        return torch.relu(self.b(values)), indices


class Shared(nn.Module):
    """One weight used twice, one output in two slots, one output that is an input, and a dict around them."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor, other: Tensor) -> dict[str, Tensor]:
        y = self.linear(self.linear(x).transpose(1, 2).transpose(1, 2))
        return {"y": y, "again": y, "other": other, "moved": other.transpose(0, 1).transpose(0, 1)}


class Inplace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(x.transpose(1, 2) + 1.0).mul_(2.0).transpose(1, 2)


class Cascade(nn.Module):
    """Views after one another and a permute by the identity, between convolutions: they cost no cycles."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 8, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x)).view(1, 8, 36).view(1, 4, 72).view(1, 8, 6, 6)
        return self.b(y.permute(0, 1, 2, 3))


def image(*shape: int) -> tuple[Tensor, ...]:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(1)),)


CASES = {
    "there_and_back": (ThereAndBack, image(1, 6, 5, 4)),
    "shuffle": (Shuffle, image(1, 4, 6, 6)),
    "pieces": (Pieces, image(1, 4, 6, 5)),
    "normed": (Normed, image(1, 8, 5, 4)),
    "cpu_between": (CpuBetween, image(1, 4, 6, 6)),
    "cascade": (Cascade, image(1, 4, 6, 6)),
    "shared": (Shared, (*image(2, 5, 6), *image(3, 4))),
    "inplace": (Inplace, image(2, 5, 6)),
}


def make(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, in eval mode and the same on every call, and its inputs."""
    module, inputs = CASES[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return module().eval(), inputs


@cache
def program(name: str, kind: str) -> ExportedProgram:
    """The case exported, "float" or "quantized"; made once, as nothing may modify it."""
    module, inputs = make(name)
    return (
        torch.export.export(module, inputs)
        if kind == "float"
        else quantize(module, inputs, EthosUCompileSpec("ethos-u85-256"))
    )
