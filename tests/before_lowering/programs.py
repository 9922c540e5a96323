"""Small modules for the tests of programs before lowering; `CASES`: name -> (module, inputs)."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch import Tensor, nn
from torch.export import ExportedProgram

from eqsat.executorch.quantize import quantize
from tests.networks import Network


def there_and_back() -> Network:
    """Two permutes that cancel around pointwise ops, one of them with a constant that has to turn."""

    def made(self: Any, x: Tensor) -> Tensor:
        return (torch.relu(x.permute(0, 2, 3, 1)) * self.scale).permute(0, 3, 1, 2)

    return Network(made, scale=nn.Parameter(torch.linspace(-1, 1, 6)))


def shuffle() -> Network:
    """Convolutions around two channel shuffles that cancel."""

    def made(self: Any, x: Tensor) -> Tensor:
        y = torch.sigmoid(nn.functional.channel_shuffle(torch.relu(self.a(x)), 2))
        return self.b(y.view(1, 4, 2, 6, 6).transpose(1, 2).reshape(1, 8, 6, 6))

    return Network(made, a=nn.Conv2d(4, 8, 3, padding=1), b=nn.Conv2d(8, 4, 1))


def pieces() -> Network:
    """Slices, pads, stacks and splits of permuted tensors, and what ATen spells differently."""

    def made(_: Any, x: Tensor) -> Tensor:
        a, b = x.movedim(1, -1).chunk(2, dim=-1)
        c = torch.cat([a, b], dim=-1).swapaxes(1, 3).flip(1)
        d = torch.stack([c[:, 0], c[:, -1]], dim=1).unsqueeze(0).squeeze(0)
        e = nn.functional.pad(d, (1, 0, 0, 2), value=0.5).repeat(1, 2, 1, 1)
        return torch.tanh(e).flatten(1).unflatten(1, (4, -1))

    return Network(made)


def normed() -> Network:
    """A normalization between permutes: reductions along a moved axis."""
    return Network(lambda self, x: self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) + x, norm=nn.LayerNorm(8))


def cpu_between() -> Network:
    """sort has no form on the NPU; its values are read, its indices are an output."""

    def made(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.a(x)).permute(0, 2, 3, 1)
        values, indices = torch.sort(y.permute(0, 3, 1, 2), dim=3)
        return torch.relu(self.b(values)), indices

    return Network(made, a=nn.Conv2d(4, 8, 1), b=nn.Conv2d(8, 8, 1))


def shared() -> Network:
    """One weight used twice, one output in two slots, one output that is an input, and a dict around them."""

    def made(self: Any, x: Tensor, other: Tensor) -> dict[str, Tensor]:
        y = self.linear(self.linear(x).transpose(1, 2).transpose(1, 2))
        return {"y": y, "again": y, "other": other, "moved": other.transpose(0, 1).transpose(0, 1)}

    return Network(made, linear=nn.Linear(6, 6))


def inplace() -> Network:
    return Network(lambda _, x: torch.relu_(x.transpose(1, 2) + 1.0).mul_(2.0).transpose(1, 2))


def cascade() -> Network:
    """Views after one another and a permute by the identity, between convolutions: they cost no cycles."""

    def made(self: Any, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x)).view(1, 8, 36).view(1, 4, 72).view(1, 8, 6, 6)
        return self.b(y.permute(0, 1, 2, 3))

    return Network(made, a=nn.Conv2d(4, 8, 1), b=nn.Conv2d(8, 4, 1))


def image(*shape: int) -> tuple[Tensor, ...]:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(1)),)


CASES = {
    "there_and_back": (there_and_back, image(1, 6, 5, 4)),
    "shuffle": (shuffle, image(1, 4, 6, 6)),
    "pieces": (pieces, image(1, 4, 6, 5)),
    "normed": (normed, image(1, 8, 5, 4)),
    "cpu_between": (cpu_between, image(1, 4, 6, 6)),
    "cascade": (cascade, image(1, 4, 6, 6)),
    "shared": (shared, (*image(2, 5, 6), *image(3, 4))),
    "inplace": (inplace, image(2, 5, 6)),
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
    if kind == "float":
        return torch.export.export(module, inputs)
    return quantize(module, inputs, EthosUCompileSpec("ethos-u85-256"))
