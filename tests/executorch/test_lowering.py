"""The one-line door, through the real ExecuTorch lowering."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.arm import quantizer as arm
from executorch.backends.arm.arm_vela import VelaCompileResult
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec, EthosUPartitioner
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import eqsat
from eqsat.device.binary import read_binary
from eqsat.executorch import backend
from eqsat.executorch.loading import quantize
from eqsat.executorch.lowering import cpu_operators
from eqsat.executorch.session import Session
from eqsat.ground.files import OutputError
from eqsat.ground.worker import Pool
from eqsat.options.decision import ALONE
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps, loads
from eqsat.vela.compile import compile_tosa
from tests.graphs import conv_graph
from tests.networks import Network, pixel_shuffle, sorted_between
from tests.reference import run_reference
from tests.search.test_interruption import AsksAt

pytestmark = pytest.mark.slow

TARGETS = ("ethos-u55-128", "ethos-u85-256")


def few_channels():
    """A convolution that is faster with pixels as channels, for 288 bytes more, beside 32 kB of other weights."""

    def made(self, x):
        y = torch.relu(self.conv(x))
        return y, self.linear(y.mean((2,)).reshape(1, 128))

    torch.manual_seed(0)
    layers = {"conv": torch.nn.Conv2d(4, 4, 3, padding=1), "linear": torch.nn.Linear(128, 224)}
    return Network(made, **layers), (torch.randn(1, 4, 64, 32),)


def sub_permute():
    """Stock ExecuTorch 1.5.1 loses this permute (mended upstream by pull request 22880)."""
    return Network(lambda self, x: (1.0 - x).permute(0, 2, 3, 1)), (torch.randn(1, 4, 6, 8),)


def two_delegates():
    """The first one is wide inside."""
    wide = torch.nn.Sequential(torch.nn.Conv2d(4, 256, 1), torch.nn.Conv2d(256, 8, 1))
    return sorted_between(wide, torch.nn.Conv2d(8, 8, 1)), (torch.randn(1, 4, 8, 8),)


@cache
def quantized(make: Callable[[], Any], target: str) -> torch.export.ExportedProgram:
    """The program of a network, which tests lower in their ways."""
    return quantize(*make(), EthosUCompileSpec(target))


def by_stock(make: Callable[[], Any], target: str) -> bytes:
    """Stock's .pte."""
    program = copy.deepcopy(quantized(make, target))
    return stock_lowering(program, partitioner=[EthosUPartitioner(EthosUCompileSpec(target))]).to_executorch().buffer


stocks = cache(by_stock)


def lowered(program, target, options=None):
    spec = EthosUCompileSpec(target)
    return program, spec, *eqsat.lower_with_session(program, spec, options=options)


@cache
def by_default(make: Callable[[], Any], target: str) -> tuple[Any, Session, bytes]:
    """A network lowered with default options, the session, and the .pte, which can be made once."""
    _, _, edge, session = lowered(quantized(make, target), target)
    return copy.deepcopy(edge), session, edge.to_executorch().buffer


@pytest.mark.pins
@pytest.mark.parametrize("target", TARGETS)
def test_a_model_becomes_a_stock_pte_with_fewer_cycles(target, pool: Pool):
    spec, (_, session, buffer) = EthosUCompileSpec(target), by_default(pixel_shuffle, target)
    (result,) = session.results
    assert result.verified and result.chosen == "eqsat" and result.calibrated < result.stock_calibrated
    assert session.stepped_back == 0
    tuned = Target.from_compile_spec(spec).with_flags(result.settings)
    assert compile_tosa(result.tosa, tuned, pool).cycles == result.cycles, "what Vela gets is what was priced"
    assert b"EthosUBackend" in buffer and b"Eqsat" not in buffer


def test_a_delegate_that_is_not_what_was_run_is_stocks(monkeypatch: pytest.MonkeyPatch) -> None:
    program, stock = quantized(pixel_shuffle, TARGETS[1]), stocks(pixel_shuffle, TARGETS[1])
    compiled, calls = EthosUBackend._compile_tosa_flatbuffer, []

    def first_constant_changed(tosa: bytes, spec: EthosUCompileSpec) -> VelaCompileResult:
        calls.append(tosa)
        if len(calls) > 1:  # stock's own
            return compiled(tosa, spec)
        graph = loads(tosa)
        n = next(n for n in graph.live() if graph.nodes[n].dtype == "INT32" and graph.nodes[n].op == "const")
        value = np.asarray(graph.nodes[n].attr("value").data) + 1
        graph.nodes[n] = graph.nodes[graph.add_const(value, "INT32")]
        return compiled(dumps(graph), spec)

    monkeypatch.setattr(EthosUBackend, "_compile_tosa_flatbuffer", staticmethod(first_constant_changed))
    with pytest.warns(eqsat.EqsatWarning, match="fell back.*not those that were measured and run"):
        edge, session = eqsat.lower_with_session(program, EthosUCompileSpec(TARGETS[1]), options=Options(effort=0))
    assert session.stepped_back == 1
    assert edge.to_executorch().buffer == stock


def test_a_binary_that_is_known_to_be_wrong_need_not_be_the_one_that_was_run() -> None:
    """Vela 5.1 lets such a one read weights that it did not write."""
    spec, session = EthosUCompileSpec(TARGETS[0]), Session(Options())
    options = Options(effort=0, remember=False)
    found = optimize_tosa(dumps(conv_graph()), Target.from_compile_spec(spec), options=options)
    assert found.binary_verified
    other = replace(found, raw={**found.raw, "read_only": found.raw["read_only"][::-1]})
    with pytest.raises(backend.ShippedError, match="the constants of the delegate are not those"):
        backend._compile(other, spec, session)
    shipped = backend._compile(replace(other, binary_verified=False), spec, session)
    assert read_binary(shipped.processed_bytes).read_only == found.raw["read_only"]


def mixed_dtypes() -> Network:
    """A convolution of INT16 between two of INT8."""

    def made(self, x):
        for layer in (self.first, self.wide):
            x = torch.nn.functional.pixel_shuffle(torch.relu(layer(x)), 2)
        return self.last(x)

    first, last = torch.nn.Conv2d(4, 16, 1), torch.nn.Conv2d(4, 8, 1)
    return Network(made, first=first, wide=torch.nn.Conv2d(4, 16, 3, padding=1), last=last)


@cache
def mixed(target: str) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    spec, inputs = EthosUCompileSpec(target), (torch.randn(1, 4, 8, 8),)
    quantizer = arm.EthosUQuantizer(spec)
    quantizer.set_global(arm.get_symmetric_quantization_config())
    quantizer.set_module_name("wide", arm.get_symmetric_a16w8_quantization_config())
    prepared = prepare_pt2e(torch.export.export(mixed_dtypes().eval(), inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


def test_one_module_of_int16_in_a_network_of_int8():
    _, _, edge, session = lowered(mixed(TARGETS[1]), TARGETS[1], Options(effort=1))
    (result,) = session.results
    given, chosen = loads(result.explicit), loads(result.tosa)
    sums = [g.nodes[n].dtype for g in (given, chosen) for n in g.live() if g.nodes[n].op == "conv2d"]
    assert {"INT32", "INT48"} <= set(sums)
    assert result.verified and result.binary_verified and result.chosen == "eqsat"
    assert result.calibrated < result.stock_calibrated
    assert b"EthosUBackend" in edge.to_executorch().buffer


@pytest.mark.parametrize("target", TARGETS)
def test_the_permute_that_stock_loses_is_kept(target, pool: Pool):
    _, session, _ = by_default(sub_permute, target)
    (result,) = session.results
    assert result.verified and result.chosen != "stock"
    assert (result.stock_verified, result.stock_cycles, session.stock_cycles) == (False, None, None)
    (told,) = (w for w in result.warnings if "stock" in w)
    assert re.match(r"what stock ExecuTorch makes of this delegate computes something else: output 0 .* steps", told)
    assert str(session).startswith(f"forward/0: - -> {result.calibrated:,} cycles; ")
    graph = loads(result.tosa)
    assert graph.nodes[graph.outputs[0]].shape == (1, 6, 8, 4)
    (x,) = samples(domains(graph), 4)[3]
    (y,) = run_reference(result.tosa, [x], pool)
    # quantized 1 - x falls as x rises, element by element, in the permuted order
    assert np.corrcoef(y.ravel().astype(float), x.transpose(0, 2, 3, 1).ravel().astype(float))[0, 1] < -0.9


def test_several_delegates_and_the_cpu_between():
    edge, session, buffer = by_default(two_delegates, "ethos-u55-128")
    assert len(session.results) == 2 and all(r.verified for r in session.results)
    (sort,) = (o for o in session.left if o.name == "aten.sort")
    assert sort.number == 1 and sort.reason
    left = {name: sum(o.number for o in session.left if o.name == name) for name in (o.name for o in session.left)}
    assert left == cpu_operators(edge)
    *delegates, together, outside = str(session).splitlines()
    assert delegates == [str(d) for d in session.delegates] and together.startswith("together: ")
    assert outside.startswith("left to the CPU: ") and str(sort) in outside
    assert f"2 delegate(s), {session.stock_calibrated:,} -> {session.calibrated:,} cycles" in repr(session)
    page = session._repr_html_()
    assert page.startswith("<table>") and f"<td>{session.cycles:,}</td>" in page and "<p>forward/1: " in page
    assert buffer.count(b"EthosUBackend") >= 1
    first, second = (d.stock_sram for d in session.delegates)
    assert first > 2 * second and [r.limits.sram for r in session.results] == [first, first], "they use one arena"


def test_debug_information_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """It is the user's mistake, so no delegate steps back for it."""
    (tmp_path / "file").touch()
    spec = EthosUCompileSpec(TARGETS[1]).dump_intermediate_artifacts_to(str(tmp_path / "file" / "inside"))
    program = quantize(torch.nn.Conv2d(2, 3, 1), (torch.randn(1, 2, 4, 4),), spec)
    with pytest.raises(OutputError, match="cannot make .*inside.*writable place with dump_intermediate_artifacts_to"):
        eqsat.lower_with_session(program, spec)


def test_an_interruption_ends_the_searches_of_all_delegates():
    asks = AsksAt("extract")
    spec = EthosUCompileSpec("ethos-u55-128")
    program = quantized(two_delegates, "ethos-u55-128")
    with asks.listening(), pytest.warns(eqsat.EqsatWarning, match="the search was interrupted") as caught:
        options = Options(remember=False)
        edge, session = eqsat.lower_with_session(program, spec, options=options, interruption=asks.interruption)
    assert all(r.interrupted and r.verified for r in session.results)
    assert [r.searched for r in session.results] == [True, False]
    assert session.complete and session.results[1].chosen in ("stock", "explicit")
    told = [str(w.message).split(":")[0] for w in caught if "interrupted" in str(w.message)]
    assert told == ["forward/0", "forward/1"]
    assert b"EthosUBackend" in edge.to_executorch().buffer


def test_a_failing_cost_model_is_the_users_own_error():
    program, options = quantized(pixel_shuffle, "ethos-u85-256"), Options(cost_model="tests.planted_costs:Raises")
    with pytest.raises(eqsat.PluginError, match="planted_costs.py"):
        lowered(program, "ethos-u85-256", options)


def test_ordinary_calls_in_the_same_process_are_untouched():
    before = stocks(pixel_shuffle, "ethos-u85-256")
    _, _, ours = by_default(pixel_shuffle, "ethos-u85-256")
    assert by_stock(pixel_shuffle, "ethos-u85-256") == before != ours


def test_a_pte_grows_as_far_as_it_may():
    options = Options(effort=1, max_flash="3%")
    _, _, edge, session = lowered(quantized(few_channels, "ethos-u85-256"), "ethos-u85-256", options)
    (result,) = session.results
    stock = len(stocks(few_channels, "ethos-u85-256"))
    ours = len(edge.to_executorch().buffer)
    grown = result.footprint.payload - result.stock_footprint.payload
    assert ours - stock == grown > 0 and ours <= 1.03 * stock
    assert result.calibrated < 0.9 * result.stock_calibrated


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_pte_has_at_least_besides_its_delegate(target):
    """The program alone, without the operators that quantize and dequantize around the delegate."""
    edge, session, pte = by_default(sub_permute, target)
    (delegate,) = (m for m in edge.exported_program().graph_module.children() if isinstance(m, LoweredBackendModule))
    alone = len(delegate.buffer(extract_delegate_segments=True)) - session.results[0].footprint.payload
    assert ALONE.fixed <= alone < len(pte) - session.results[0].footprint.payload


def test_a_pte_of_several_delegates_grows_as_far_as_it_may():
    """The segment of each begins at a multiple of 128 bytes; 4 KiB are for all of them together."""
    target = "ethos-u55-128"
    _, free, pte = by_default(two_delegates, target)
    *_, edge, session = lowered(quantized(two_delegates, target), target, Options(effort=1, max_flash="1%"))
    stock = len(stocks(two_delegates, target))
    assert len(free.results) == len(session.results) == 2
    assert len(pte) <= stock + 4096 and len(edge.to_executorch().buffer) <= 1.01 * stock
    assert not any(r.passed_over for r in free.results)


@pytest.mark.pins
def test_what_ships_is_compiled_with_the_chosen_settings(pool: Pool):
    target = "ethos-u55-128"
    # thin, wide and thin again: where Vela computes rows in turns, the wide tensors are never there as a whole
    a, b, c = (torch.nn.Conv2d(i, o, 3, padding=1) for i, o in ((8, 48), (48, 48), (48, 8)))
    widening = torch.nn.Sequential(a, torch.nn.ReLU(), b, torch.nn.ReLU(), c)
    program = quantize(widening, (torch.randn(1, 8, 24, 24),), EthosUCompileSpec(target))
    _, spec, edge, session = lowered(program, target, Options(objective="sram", effort=1))
    (result,) = session.results
    assert not session.stepped_back and result.settings and result.footprint.sram < result.stock_footprint.sram
    assert spec.compiler_flags == EthosUCompileSpec(target).compiler_flags
    payload = edge.to_executorch().buffer
    plain = compile_tosa(result.tosa, Target.of(target), pool)
    assert result.raw["stream"] in payload and plain.stream not in payload
