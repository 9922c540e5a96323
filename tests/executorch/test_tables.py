"""Functions of one INT8 tensor that Arm's quantizer does not know: one TABLE each, with PyTorch's own integers."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from torch.export import ExportedProgram

import eqsat
from eqsat.executorch.forms import rewrite
from eqsat.executorch.loading import load_program, quantize
from eqsat.executorch.lowering import cpu_operators
from eqsat.executorch.names import A16W8, QUANTIZATIONS, check_quantization
from eqsat.executorch.tables import FUNCTION, replace_function
from eqsat.ground.files import InputError, LoweringError
from tests.networks import Network

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "relu6": F.relu6,
    "mish": F.mish,
    "softplus": F.softplus,
    "hswish": lambda x: x * F.relu6(x + 3) / 6,
    "chain": lambda x: F.softshrink(torch.atan(F.celu(x)).abs() + 0.25),
    "where": lambda x: torch.where(x > 0, F.mish(x), x.square()),
    "number": lambda x: torch.where(x > 0, x, 0.1),
    "masked": lambda x: x.masked_fill(x < 0.2, 0),
    "logsigmoid": F.logsigmoid,
}


def between(function: Callable[..., torch.Tensor], operands: int) -> Network:
    """A function between two convolutions."""
    before = torch.nn.ModuleList(torch.nn.Conv2d(3, 8, 3, padding=1) for _ in range(operands))
    after = torch.nn.Conv2d(8, 4, 3, padding=1)
    return Network(lambda self, x: self.after(function(*(conv(x) for conv in self.before))), before=before, after=after)


def program(function: Callable[..., torch.Tensor], operands: int = 1, kind: str = "int8") -> ExportedProgram:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    return quantize(between(function, operands).eval(), (x,), EthosUCompileSpec("ethos-u55-128"), [(3 * x,)], kind)


#: A constant of zeros, in which signs differ.
SIGNS = torch.tensor([0.0, -0.0]).repeat(4).reshape(8, 1, 1)


def functions(found: ExportedProgram) -> int:
    return sum(n.target is FUNCTION for n in found.graph.nodes)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_the_program_computes_the_same_to_the_bit(function: Function) -> None:
    given = program(function)
    inputs = [3 * torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    before = [given.module()(x) for x in inputs]
    found = rewrite(given, [replace_function])
    assert functions(found) >= 1
    assert all(torch.equal(found.module()(x), y) for x, y in zip(inputs, before, strict=True))


@pytest.mark.parametrize(
    ("function", "operands", "kind"),
    [
        (torch.nn.functional.relu, 1, "int8"),
        (torch.hypot, 2, "int8"),
        (lambda x: F.mish(torch.renorm(x, 2, 0, 1.0)), 1, "int8"),
        (F.mish, 1, A16W8),
        (lambda x: F.rrelu(x, training=True), 1, "int8"),
        (lambda x: torch.copysign(F.mish(x), SIGNS), 1, "int8"),
    ],
    ids=["the quantizer knows it", "two tensors", "another operator between", "INT16", "random numbers", "signs of 0"],
)
def test_what_is_no_function_of_one_int8_tensor_stays(function, operands: int, kind: str) -> None:
    given = program(function, operands, kind)
    before = str(given.graph)
    assert functions(rewrite(given, [replace_function])) == 0 and str(given.graph) == before


def of_a_written_view(self: Network, x: torch.Tensor) -> torch.Tensor:
    y = F.softshrink(x)
    y.view(-1).square_()
    return F.mish(y)


def of_a_written_buffer(self: Network, x: torch.Tensor) -> torch.Tensor:
    y = torch.hypot(F.mish(x), self.n)
    self.n.copy_(self.n + 1)
    return y


@pytest.mark.parametrize("function", [of_a_written_view, of_a_written_buffer])
def test_what_is_written_in_place_is_read_as_it_is_then(function: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    x, (before, after) = torch.randn(1, 3, 8, 8), (torch.nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))
    made = lambda self, x: self.after(function(self, self.before(x)))  # noqa: E731
    network = Network(made, before=before, after=after, n=torch.full((1,), 2.0))
    given = quantize(network, (x,), EthosUCompileSpec("ethos-u55-128"), [(3 * x,)])
    one, other = given.module(), rewrite(copy.deepcopy(given), [replace_function]).module()
    assert all(torch.equal(one(3 * x), other(3 * x)) for _ in range(3))


@pytest.mark.slow
def test_nothing_of_it_stays_on_the_cpu() -> None:
    given = program(FUNCTIONS["hswish"])
    options = eqsat.Options(effort=0, cache=None)
    edge, session = eqsat.lower_with_session(given, "ethos-u55-128", options=options)
    assert set(cpu_operators(edge)) == {f"quantized_decomposed.{q}quantize_per_tensor" for q in ("", "de")}
    assert len(session.results) == 1 and session.results[0].verified


@pytest.mark.slow
def test_a_function_without_a_delegate_is_an_error_and_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime has no operator for it."""
    monkeypatch.setattr(EthosUPartitioner, "register_custom_partition_op", lambda self, op: None)
    with pytest.raises(LoweringError, match="got no delegate: please report"):
        eqsat.lower_with_session(program(F.mish), "ethos-u55-128", options=eqsat.Options(effort=0, cache=None))


@pytest.mark.parametrize(("quantization", "activations"), zip(QUANTIZATIONS, (torch.int8, torch.int16), strict=True))
def test_activations_have_the_dtype_of_the_quantization_and_weights_int8(quantization, activations):
    torch.manual_seed(0)
    module, spec = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.ReLU()), EthosUCompileSpec("ethos-u55-128")
    program = quantize(module, (torch.randn(1, 2, 4, 4),), spec, quantization=quantization)
    ops = torch.ops.quantized_decomposed
    quantized = {n.meta["val"].dtype for n in program.graph.nodes if n.target is ops.quantize_per_tensor.default}
    per_channel = [n for n in program.graph.nodes if n.target is ops.dequantize_per_channel.default]
    weights = {n.args[0].meta["val"].dtype for n in per_channel if n.args[0].meta["val"].dim() == 4}
    assert quantized == {activations} and weights == {torch.int8}


def test_no_such_quantization_and_what_is_quantized_already():
    with pytest.raises(InputError, match="'w4a16': use int8, a16w8"):
        check_quantization("w4a16", "m.py:model")
    for file in ("m.pt2", "m.tosa"):
        with pytest.raises(InputError, match="is quantized already"):
            check_quantization("a16w8", file)
        check_quantization("int8", file)
    with pytest.raises(InputError, match="is quantized already"):
        load_program("m.pt2", EthosUCompileSpec("ethos-u55-128"), "a16w8")
