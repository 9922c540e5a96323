"""Sums, convolutions and flips that Arm's partitioner refuses on U55: the same values, in forms that it takes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.exir import to_edge_transform_and_lower
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import ExportedProgram

import eqsat
from eqsat.executorch import forms
from eqsat.executorch.binaries import run_model
from eqsat.executorch.forms import fits, integer_argmax, pad_outside, reshape_flip, reshape_sum, rewrite, split
from eqsat.executorch.loading import quantize
from eqsat.executorch.lowering import cpu_operators
from eqsat.executorch.names import QUANTIZATIONS
from eqsat.executorch.tables import fold_constants
from eqsat.ground.worker import Pool
from tests.networks import Network
from tests.sweeps import some

Rewrite = Callable[..., Any]
CASES = [
    ((1, 8, 300, 300), (1,)),  # in front 1, behind 90,000: the sum goes between H and W
    ((1, 70000), (1,)),  # an axis of 70,000: two axes
    ((2, 90000), (0,)),  # one axis behind: it is cut
    ((300, 8, 300, 2), (1, 3)),
    ((1, 4, 70000), (2,)),
    ((2, 3, 90000), (0,)),
    ((3, 300, 2, 300), (0, 2)),
]


def mean(axes: tuple[int, ...], keepdim: bool = True) -> Network:
    return Network(lambda self, x: x.mean(axes, keepdim=keepdim))


def program(network: Network, *shapes: tuple[int, ...], target: str = "ethos-u55-128", kind: str = "int8"):
    torch.manual_seed(0)
    return quantize(network.eval(), tuple(map(torch.randn, shapes)), EthosUCompileSpec(target), quantization=kind)


def same_to_the_bit(before: ExportedProgram, change: Rewrite) -> ExportedProgram:
    """Returns the program after a rewrite, which computes what it did before."""
    after = rewrite(copy.deepcopy(before), [change])
    (given,) = before.example_inputs[0]
    for seed in range(3):
        x = torch.randn(given.shape, generator=torch.Generator().manual_seed(seed))
        a, b = before.module()(x), after.module()(x)
        assert torch.equal(a, b) and a.shape == b.shape
    return after


def sums(ep: ExportedProgram) -> list[torch.fx.Node]:
    return [n for n in ep.graph.nodes if n.target is torch.ops.aten.sum.dim_IntList]


def sums_fit(ep: ExportedProgram) -> bool:
    return all(fits(n.args[0].meta["val"].shape, n.args[1]) for n in sums(ep))


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.integers(1, 400), max_size=4), st.integers(1, 80000))
def test_a_split_fits_and_has_all_elements(kept: list[int], summed: int) -> None:
    found = split(kept, summed)
    if found is None:
        return
    assert fits(found, (1, 2)) and found[0] * found[3] == prod(kept) and found[1] * found[2] == summed


def test_what_has_no_divisors_is_left_alone() -> None:
    assert split([], 65537) is None and split([], 65536) == (1, 1, 65536, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "axes", "keepdim"), some([(*case, k % 2 == 0) for k, case in enumerate(CASES)], 4))
def test_the_program_computes_the_same_to_the_bit(shape, axes, keepdim: bool) -> None:
    before = program(mean(axes, keepdim), shape)
    assert not sums_fit(before), "the case is none"
    assert sums_fit(same_to_the_bit(before, reshape_sum))


def test_sums_in_another_precision_stay_as_they_are() -> None:
    before = program(mean((1,)), (1, 8, 300, 300))
    for dtype, written in ((torch.float64, False), (torch.float32, True)):
        asked = copy.deepcopy(before)
        for node in sums(asked):
            node.kwargs = {"dtype": dtype}
        names = [n.name for n in asked.graph.nodes]
        assert ([n.name for n in rewrite(asked, [reshape_sum]).graph.nodes] != names) is written


# ---- convolutions that pad --------------------------------------------------------------------------------


def strided_convolution(stride: tuple[int, ...], padding: tuple[int, ...], groups: int = 1) -> Network:
    torch.manual_seed(0)
    conv = (torch.nn.Conv1d if len(stride) == 1 else torch.nn.Conv2d)(
        3, 3 if groups > 1 else 4, 5, stride, padding, groups=groups
    )
    return Network(lambda self, x: torch.relu(self.conv(x)), conv=conv)


STRIDED = [((5,), (2,)), ((4, 4), (1, 2)), ((2, 6), (2, 0))]


def strided(stride: tuple[int, ...], padding: tuple[int, ...], groups: int = 1) -> ExportedProgram:
    return program(strided_convolution(stride, padding, groups), (1, 3, *(24 for _ in stride)))


def padding_of(ep: ExportedProgram) -> list[int]:
    (conv,) = (n for n in ep.graph.nodes if n.target in (torch.ops.aten.conv1d.default, torch.ops.aten.conv2d.default))
    return list(conv.args[4])


@pytest.mark.parametrize(("stride", "padding"), STRIDED)
def test_a_convolution_of_a_large_stride_pads_outside_to_the_bit(stride, padding) -> None:
    before = strided(stride, padding)
    assert any(padding_of(before)) and not any(padding_of(same_to_the_bit(before, pad_outside)))


@pytest.mark.parametrize(
    ("stride", "padding", "groups"), [((3, 2), (1, 1), 1), ((4, 4), (2, 2), 3)], ids=["small stride", "depthwise"]
)
def test_a_convolution_pads_itself_where_it_can_and_where_vela_compiles_it_in_no_form(stride, padding, groups) -> None:
    assert padding_of(rewrite(strided(stride, padding, groups), [pad_outside])) == list(padding)


def test_the_given_program_is_not_modified() -> None:
    """Whoever lowers it again, with stock's partitioner, has stock's operators."""
    for before in (strided((4, 4), (1, 2)), program(flip((0, 2)), (2, 3, 4, 5))):
        text = str(before.graph)
        after = eqsat.EthosUPartitioner(EthosUCompileSpec("ethos-u55-128")).transform_for_pre_decomposition(before)
        alone, _ = eqsat.optimize(before, target="ethos-u55-128")
        assert str(before.graph) == text != str(after.graph) == str(alone.graph)


# ---- flips ------------------------------------------------------------------------------------------------


def flip(axes: tuple[int, ...]) -> Network:
    return Network(lambda self, x: torch.relu(x).flip(axes))


def flips(ep: ExportedProgram) -> list[tuple[int, list[int]]]:
    """The rank and the axes of each flip."""
    found = [n for n in ep.graph.nodes if n.target is torch.ops.aten.flip.default]
    return [(n.meta["val"].dim(), list(n.args[1])) for n in found]


@pytest.mark.parametrize(
    ("shape", "axes", "after"),
    [
        ((2, 5, 7), (0, 2), [(4, [2]), (4, [2])]),
        ((3, 4), (-1,), [(4, [2])]),
        ((2, 3, 4, 5), (3,), [(4, [2])]),
        ((2, 3, 4, 5), (2,), [(4, [2])]),
        ((2, 3, 4, 5), (1,), [(4, [1])]),
    ],
)
def test_a_flip_becomes_flips_of_the_third_of_four_axes_to_the_bit(shape, axes, after) -> None:
    assert flips(same_to_the_bit(program(flip(axes), shape), reshape_flip)) == after


# ---- argmax -----------------------------------------------------------------------------------------------


def argmax(axis: int, keepdim: bool = False) -> Network:
    return Network(lambda self, x: torch.relu(x).argmax(axis, keepdim).to(torch.int32))


@pytest.mark.parametrize(("axis", "keepdim"), [(1, False), (-1, True)])
@pytest.mark.parametrize("kind", QUANTIZATIONS)
def test_an_argmax_reads_integers_and_is_the_first_of_equal_ones(axis: int, keepdim: bool, kind: str) -> None:
    before = program(argmax(axis, keepdim), (2, 5, 6, 300), target="ethos-u85-256", kind=kind)  # of 300 many are equal
    after = same_to_the_bit(before, integer_argmax)
    (read,) = (n.args[0] for n in after.graph.nodes if n.target is torch.ops.aten.argmax.default)
    assert not read.meta["val"].is_floating_point()


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUANTIZATIONS)
def test_an_argmax_runs_on_u85_with_pytorchs_integers(kind: str, pool: Pool) -> None:
    target = "ethos-u85-256"
    given = program(argmax(1), (1, 10, 6, 7), target=target, kind=kind)
    (x,) = given.example_inputs[0]
    edge, session = eqsat.lower_with_session(given, target, options=eqsat.Options(effort=0, cache=None))
    assert set(cpu_operators(edge)) == {"quantized_decomposed.quantize_per_tensor"}
    (result,) = session.results
    assert result.verified and result.binary_verified
    (found,) = (v.data for v in run_model(edge.to_executorch().buffer, [x.numpy()], pool).outputs.values())
    assert (found.reshape(-1) == given.module()(x).numpy().reshape(-1)).all()


# ---- integers of which a QUANTIZE does not make the same ones ---------------------------------------------

INT16, INT32 = (-(1 << 15) + 1, (1 << 15) - 1, torch.int16), (-(1 << 31), (1 << 31) - 1, torch.int32)
ENDS = torch.tensor([-(1 << 15), 1], dtype=torch.int16).reshape(2, 1).repeat(1, 70000)
LARGE = torch.tensor([[1 << 24, (1 << 24) + 1, (1 << 31) - 1]], dtype=torch.int32)


@pytest.mark.parametrize(
    ("x", "limits", "scale", "made", "change"),
    [
        (ENDS, INT16, 1.0, lambda x: x.sum(0, keepdim=True), reshape_sum),
        (LARGE, INT32, 2.0, lambda x: x.flip(1), reshape_flip),
        (LARGE[:, :2], INT32, 1.0, lambda x: x.argmax(1, keepdim=True).to(torch.float32), integer_argmax),
    ],
    ids=["below the limit", "beyond the largest float", "equal floats"],
)
def test_integers_that_a_quantize_does_not_keep_are_the_same(x, limits, scale, made, change: Rewrite) -> None:
    ops = torch.ops.quantized_decomposed
    network = Network(
        lambda self, x: ops.quantize_per_tensor(made(ops.dequantize_per_tensor(x, 1.0, 0, *limits)), scale, 0, *limits)
    )
    before = torch.export.export(network, (x,))
    after = rewrite(copy.deepcopy(before), [change])
    assert torch.equal(before.module()(x), after.module()(x))


# ---- all of them ------------------------------------------------------------------------------------------


def refused(target: str) -> ExportedProgram:
    """A mean, two convolutions and a flip that the partitioner refuses on U55 and U65."""
    parts = mean((1,)), *(strided_convolution(*how) for how in STRIDED[:2]), flip((0, 2))
    made, modules = (lambda self, *xs: tuple(part(x) for part, x in zip(self.parts, xs))), torch.nn.ModuleList(parts)
    shapes = (1, 70000), (1, 3, 24), (1, 3, 24, 24), (2, 5, 7)
    return program(Network(made, parts=modules), *shapes, target=target)


#: What is outside of every delegate.
BORDERS = {f"quantized_decomposed.{q}quantize_per_tensor" for q in ("", "de")}


@pytest.mark.slow
def test_nothing_of_it_stays_on_the_cpu() -> None:
    edge, session = eqsat.lower_with_session(refused("ethos-u65-256"), "ethos-u65-256", options=eqsat.Options(effort=0))
    assert set(cpu_operators(edge)) == BORDERS
    assert all(r.verified and r.binary_verified is not False for r in session.results)


def outside(program: ExportedProgram, target: str) -> set[str]:
    """The operators that stock ExecuTorch leaves to the CPU."""
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    return set(cpu_operators(to_edge_transform_and_lower(copy.deepcopy(program), partitioner=[partitioner])))


@pytest.mark.slow
def test_stock_s_lowering_leaves_nothing_of_an_optimized_program_to_the_cpu() -> None:
    target = "ethos-u55-128"
    before = refused(target)
    after, report = eqsat.optimize(before, target=target)
    assert report.changed and after is not before
    for a, b in zip(after.module()(*before.example_inputs[0]), before.module()(*before.example_inputs[0]), strict=True):
        assert torch.equal(a, b)
    left = outside(before, target)
    assert {"aten.sum.dim_IntList", "aten.convolution", "aten.flip"} <= left
    assert outside(after, target) == BORDERS < left


def test_a_program_without_such_operators_is_given_back() -> None:
    before = program(mean((1, 2)), (1, 8, 16, 16))
    after, report = eqsat.optimize(before, target="ethos-u55-128")
    assert after is before and not report.changed and report.reason == "no operator needs another form"


def test_a_failure_gives_the_program_back_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(forms, "rewrite", fails)
    before = strided((4, 4), (1, 2))
    with pytest.warns(eqsat.EqsatWarning, match="left as it is: ZeroDivisionError: planted"):
        after, report = eqsat.optimize(before, target="ethos-u55-128")
    assert after is before and report.reason == "ZeroDivisionError: planted"


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
