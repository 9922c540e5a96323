"""Constants that stock ExecuTorch cannot lower: computed before, and nothing else is touched."""

from __future__ import annotations

import math

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec

import eqsat
from eqsat.executorch.constants import fold_constants
from eqsat.executorch.lowering import cpu_operators
from eqsat.executorch.quantize import quantize
from tests.networks import Network


def positions(n: int, h: int, w: int, channels: int = 8) -> torch.Tensor:
    """Sines of the positions of columns, counted in a BOOL mask: EdgeNeXt has them of rows, too."""
    mask = ~torch.zeros((n, h, w)).to(torch.bool)
    place = mask.cumsum(2, dtype=torch.float32)
    place = place / (place.amax(2, keepdim=True) + 1e-6) * 2 * math.pi
    powers = torch.arange(channels, dtype=torch.int64).to(torch.float32)
    powers = 10000 ** (2 * torch.div(powers, 2, rounding_mode="floor") / channels)
    place = place[..., None] / powers
    return torch.stack((place[..., 0::2].sin(), place[..., 1::2].cos()), dim=4).flatten(3).permute(0, 3, 1, 2)


def edgenext_like() -> Network:
    def made(self: Network, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        n, _, h, w = x.shape
        y = self.depthwise(x) + self.position(positions(n, h, w))
        return x + self.pointwise(torch.nn.functional.gelu(y))

    stem, position = torch.nn.Conv2d(3, 16, 4, 4), torch.nn.Conv2d(8, 16, 1)
    depthwise, pointwise = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16), torch.nn.Conv2d(16, 16, 1)
    return Network(made, stem=stem, position=position, depthwise=depthwise, pointwise=pointwise)


def plain() -> Network:
    """Its constants are weights, and a quantized sum of two of them, which the NPU has."""
    a, b = (torch.nn.Parameter(torch.randn(1, 4, n, n)) for n in (1, 8))
    return Network(lambda self, x: self.conv(x) + (self.a + self.b), conv=torch.nn.Conv2d(4, 4, 1), a=a, b=b)


def quantized(module: torch.nn.Module, x: torch.Tensor, spec: EthosUCompileSpec) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return quantize(module.eval(), (x,), spec, calibration=[(x,)])


@pytest.mark.slow
def test_what_stock_fails_on_lowers_whole_and_to_the_bit() -> None:
    spec, x = EthosUCompileSpec("ethos-u85-256"), torch.randn(1, 3, 16, 16)
    program = quantized(edgenext_like(), x, spec)

    def state() -> tuple[list[str], ...]:
        return [str(n) for n in program.graph.nodes], list(program.constants), list(program.state_dict)

    before = state()
    folded = fold_constants(program)
    assert state() == before
    for seed in range(3):
        y = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(program.module()(y), folded.module()(y))
    edge, session = eqsat.lower_with_session(program, spec, options=eqsat.Options(effort=0, binary_time_limit=0))
    assert session.complete and all(r.verified for r in session.results)
    assert cpu_operators(edge) == {f"quantized_decomposed.{q}quantize_per_tensor": 1 for q in ("", "de")}
    assert b"EthosUBackend" in edge.to_executorch().buffer


def test_an_operator_of_constants_that_the_quantizer_does_not_know_is_computed() -> None:
    """Arm's partitioner would leave it to the CPU, with what it is decomposed into."""
    masked = Network(lambda self, x: self.conv(x) * torch.ones(8, 8).triu(), conv=torch.nn.Conv2d(3, 4, 1))
    x = torch.randn(1, 3, 8, 8)
    program = quantized(masked, x, EthosUCompileSpec("ethos-u55-128"))
    folded = fold_constants(program)
    assert "triu" in str(program.graph) and "triu" not in str(folded.graph)
    assert torch.equal(program.module()(x), folded.module()(x))


def test_quantized_operators_of_constants_are_left_to_the_npu() -> None:
    program = quantized(plain(), torch.randn(1, 4, 8, 8), EthosUCompileSpec("ethos-u85-256"))
    assert fold_constants(program) is program


def test_random_numbers_and_written_buffers_are_no_constants() -> None:
    def counting(self: Network, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count.cumsum(0) + torch.rand(4)

    program = torch.export.export(Network(counting, count=torch.zeros(4, dtype=torch.int64)), (torch.randn(4),))
    assert fold_constants(program) is program
