"""INT delegates have integers at their edges, and nothing is claimed of what cannot be lowered."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.exir import EdgeProgramManager
from torch.export import ExportedProgram

import eqsat
from eqsat.cli.common import causes
from eqsat.executorch import partitioner
from eqsat.executorch.backend import innermost
from eqsat.executorch.compiling import compile_model
from eqsat.executorch.loading import quantize
from eqsat.executorch.pte import delegates
from eqsat.ground.files import LoweringError
from eqsat.options.options import Options
from tests.networks import Network

U85 = EthosUCompileSpec("ethos-u85-256")
#: For what no search decides.
BRIEF = Options(effort=0, remember=False, binary_time_limit=0)


def split() -> Network:
    """A convolution whose halves an operator reads that no NPU has."""
    conv = torch.nn.Conv2d(4, 8, 1)
    return Network(lambda self, x: torch.cumsum(self.conv(x).split(4, 1)[0].flatten(2), 2), conv=conv)


def cached() -> ExportedProgram:
    """A step of decoding that writes its row into a cache, which is a buffer (ExecuTorch's issue 17700)."""

    def made(self: Network, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(1, position, self.key(x))
        return self.out(self.cache)

    parts = {"key": torch.nn.Linear(16, 16), "out": torch.nn.Linear(16, 16), "cache": torch.zeros(1, 8, 16)}
    inputs = torch.randn(1, 1, 16), torch.tensor([3])
    return quantize(Network(made, **parts).eval().requires_grad_(False), inputs, U85)


def split_in_float() -> ExportedProgram:
    """The halves are taken in floating point, as the quantizer left them before ExecuTorch's issue 19364."""
    x = (torch.randn(1, 4, 6, 6),)
    program = quantize(split().eval(), x, U85)
    module = program.module()
    for n in list(module.graph.nodes):
        if "dequantize_per_tensor" in str(n.target) and n.args[0].op == "call_function":
            source = n.args[0].args[0]
            if source.op == "call_function" and "conv" not in str(source.target):
                n.replace_all_uses_with(source)
    module.graph.eliminate_dead_code()
    module.recompile()
    return torch.export.export(module, x)


def results_of_delegates(edge: EdgeProgramManager) -> list[torch.dtype]:
    nodes = edge.exported_program().graph.nodes
    return [v.dtype for n in nodes if "executorch_call_delegate" in n.name for v in n.meta["val"]]


@pytest.mark.slow
@pytest.mark.parametrize("program", [cached, split_in_float])
def test_the_results_of_an_int_delegate_are_integers(program) -> None:
    edge, session = eqsat.lower_with_session(program(), U85, options=BRIEF)
    assert session.stepped_back == 0 and session.complete
    assert set(results_of_delegates(edge)) == {torch.int8}
    assert len(edge.to_executorch().buffer) > 1000


@pytest.mark.slow
def test_equal_operators_of_several_methods_are_told_once() -> None:
    methods = {name: split_in_float() for name in ("first", "second")}
    _, session = eqsat.lower_with_session(methods, U85, options=BRIEF)
    (sums,) = (o for o in session.left if o.name == "aten.cumsum")
    assert sums.number == 2 and sums.reason


@pytest.mark.slow
def test_what_writes_buffers_back_runs_on_the_cpu(tmp_path: Path) -> None:
    torch.export.save(cached(), tmp_path / "cached.pt2")
    pte, summary = compile_model(str(tmp_path / "cached.pt2"), U85, BRIEF)
    outside = delegates(pte)[0].outside
    assert summary.cpu_operators["aten.copy_"] == outside.count("aten::copy_") == 1
    assert sum(summary.cpu_operators.values()) == len(outside)


@pytest.mark.slow
def test_a_delegate_that_stock_cannot_lower_is_not_called_stocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioner, "_keep_out", TOSAPartitioner._detag_boundary_nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", eqsat.EqsatWarning)
        with pytest.raises(LoweringError) as told:
            eqsat.lower_with_session(cached(), U85, options=BRIEF)
    text = str(told.value)
    assert text.startswith("forward/0: neither eqsat nor stock ExecuTorch can lower it: TosaValueError: TOSA spec ")
    assert text.endswith("doesn't support float32 for MUL (at tosa.MUL)") and "\n" not in text
    assert "GraphPassAdapter" in causes(told.value), "the chain of causes is there for who debugs"


def test_the_innermost_cause_is_one_line_with_the_operator() -> None:
    reason = "no float32 for MUL\n\nWhile executing %mul_1 : [num_users=1] = call_function[target=a.b._ops.tosa.MUL.default](args = ())\nmore"
    error = RuntimeError("An error occurred when running a pass")
    error.__cause__ = ValueError(reason)
    assert innermost(error) == "ValueError: no float32 for MUL (at tosa.MUL)"
    assert innermost(KeyError("x")) == "KeyError: 'x'"
