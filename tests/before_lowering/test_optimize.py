"""`eqsat.optimize`: kind, signature, outputs, and what lowering makes of the result."""

from __future__ import annotations

import copy
import io
from functools import cache

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.exir import to_edge, to_edge_transform_and_lower
from torch.utils._pytree import tree_leaves

import eqsat
from eqsat.before_lowering.compare import samples
from eqsat.before_lowering.lift import read
from eqsat.before_lowering.optimize import ProgramReport
from eqsat.egraph.engine import Budget
from eqsat.executorch.lowering import cpu_operators
from eqsat.executorch.nodes import name
from eqsat.executorch.quantize import quantize
from eqsat.options.options import Options
from tests.before_lowering.programs import CASES, make, program
from tests.executorch.test_forms import BORDERS, refused
from tests.networks import Network, pixel_shuffle
from tests.planted import UNMOVED

pytestmark = pytest.mark.slow

TARGET = "ethos-u85-256"
#: For what is lowered for real: greedy extraction, and memory without limits, as it decides nothing here.
BRIEF = Options(effort=1, max_sram="any", max_flash="any")


def moving(p) -> list[str]:
    """Names of the ops of a program that move or view data."""
    views = {"permute", "transpose", "view", "reshape", "movedim", "slice", "cat", "flip"}
    views |= {"channel_shuffle", "pixel_shuffle"}
    return [name(n.target) for n in p.graph.nodes if n.op == "call_function" and name(n.target) in views]


def state(p) -> tuple:
    """All that a program is: graph, signature, meta keys and every tensor it holds."""
    graph = [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs), sorted(n.meta)) for n in p.graph.nodes]
    return graph, str(p.graph_signature), {k: v.clone() for k, v in {**p.state_dict, **p.constants}.items()}


def same(a: tuple, b: tuple) -> bool:
    return a[:2] == b[:2] and a[2].keys() == b[2].keys() and all(torch.equal(a[2][k], b[2][k]) for k in a[2])


def signature(p) -> tuple:
    """What a caller relies on."""
    inputs = [(s.kind, s.arg.name) for s in p.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    return inputs, [s.kind for s in p.graph_signature.output_specs], p.call_spec


def left(session: eqsat.Session) -> int:
    return sum(operator.number for operator in session.left)


def figures(session: eqsat.Session) -> list[int]:
    """All that may not grow: cycles by either lowering and operators outside."""
    cycles = [session.stock_calibrated, session.calibrated, session.stock_cycles, session.cycles]
    return [*cycles, left(session)]


@cache
def optimized(case: str, kind: str) -> tuple[torch.export.ExportedProgram, ProgramReport]:
    """What the model's check makes of a case; made once, as nothing may modify it.

    Among 1,000 e-nodes all gains are found; those of "pieces" would go on to 40,000.
    """
    before = program(case, kind)
    held = state(before)
    found = eqsat.optimize(before, target=TARGET, check="model", options=Options(budget=Budget(nodes=1000)))
    assert same(held, state(before)), "the input was modified"
    return found


@pytest.mark.parametrize("kind", ["float", "quantized"])
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_equal_and_the_program_is_of_the_same_kind(case: str, kind: str) -> None:
    before = program(case, kind)
    after, report = optimized(case, kind)
    assert not report.warnings and report.exact == (report.changed and kind == "quantized")
    if case == "normed" and kind == "float":  # layer_norm is opaque: there is nothing to gain
        assert after is before and not report.changed
        return
    assert report.changed and report.trials == 6 and report.modelled[1] < report.modelled[0]
    assert type(after) is type(before)
    assert signature(before) == signature(after)
    # once more, by the modules themselves, on inputs of their own
    for xs in samples(read(before), 5, seed=7)[3:]:
        given, found = (p.module()(*[x.clone() for x in xs.values()]) for p in (before, after))
        assert type(given) is type(found)
        for a, b in zip(tree_leaves(given), tree_leaves(found), strict=True):
            assert torch.equal(a, b) if kind == "quantized" else torch.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", ["there_and_back", "shuffle", "inplace"])
def test_movement_that_cancels_is_gone(case: str) -> None:
    for kind in ("float", "quantized"):
        before = program(case, kind)
        after, report = optimized(case, kind)
        assert moving(before) and not moving(after)
        assert report.removed == len(moving(before)) and all(now == 0 for _, now in report.ops.values())


def test_a_saved_result_loads_and_computes_the_same() -> None:
    after, _ = optimized("there_and_back", "float")
    assert any("_eqsat_constant" in k for k in after.constants)  # the scale, turned
    file = io.BytesIO()
    torch.export.save(after, file)
    file.seek(0)
    loaded = torch.export.load(file)
    (x,) = make("there_and_back")[1]
    assert torch.equal(loaded.module()(x), after.module()(x))


def test_lowered_for_real_the_result_is_no_worse_by_either_lowering() -> None:
    """sort is outside the NPU: two delegates with a CPU op between."""
    before = program("cpu_between", "quantized")
    after, report = eqsat.optimize(before, target="ethos-u55-128", options=BRIEF)
    old, new = map(figures, report.lowered)
    assert all(a <= b for a, b in zip(new, old, strict=True))
    assert report.changed == (new != old or report.removed > 0) and (after is before) != report.changed


def test_views_and_identity_permutes_go_though_they_cost_no_cycles() -> None:
    before = program("cascade", "quantized")
    after, report = eqsat.optimize(before, target=TARGET, options=BRIEF)
    assert report.changed and moving(before) == ["view", "view", "view", "permute"] and moving(after) == []
    assert report.ops == {"permute": (1, 0), "view": (3, 0)}
    assert figures(report.lowered[0]) == figures(report.lowered[1])


def test_stock_s_lowering_gains_from_native_steps() -> None:
    """Vela decomposes the six axes of a pixel shuffle; written in steps that the NPU has, it costs a fraction."""
    before = quantize(*pixel_shuffle(), EthosUCompileSpec(TARGET))
    # by default eqsat may need no more memory than stock, which needs less for the rewritten program
    after, report = eqsat.optimize(before, target=TARGET, options=BRIEF)
    old, new = report.lowered
    assert report.changed and after is not before
    assert new.stock_cycles < old.stock_cycles / 2 and new.cycles <= old.cycles


def outside(program: torch.export.ExportedProgram, target: str) -> set[str]:
    """The operators that stock ExecuTorch leaves to the CPU."""
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    return set(cpu_operators(to_edge_transform_and_lower(copy.deepcopy(program), partitioner=[partitioner])))


def test_what_arm_s_partitioner_refuses_gets_a_form_that_it_accepts() -> None:
    """With stock ExecuTorch's lowering nothing of it stays on the CPU."""
    target = "ethos-u55-128"
    before = refused(target)
    after, report = eqsat.optimize(before, target=target, check="model")
    assert report.changed and report.accepted and report.exact and report.largest_difference == 0
    left_before = outside(before, target)
    assert {"aten.sum.dim_IntList", "aten.convolution", "aten.flip"} <= left_before
    assert outside(after, target) == BORDERS < left_before


def test_the_result_of_the_model_s_check_lowers_to_one_delegate() -> None:
    spec = EthosUCompileSpec(TARGET)
    after, report = optimized("pieces", "quantized")
    edge = to_edge_transform_and_lower(after, partitioner=[EthosUPartitioner(spec)])
    calls = [n for n in edge.exported_program().graph.nodes if n.op == "call_function"]
    assert report.changed and [getattr(n.target, "__name__", "") for n in calls].count("executorch_call_delegate") == 1
    assert not [n for n in calls if name(n.target) in ("permute", "view", "cat", "slice", "flip", "repeat")]


def test_another_partitioner_takes_the_result() -> None:
    xnnpack = pytest.importorskip("executorch.backends.xnnpack.partition.xnnpack_partitioner")
    after, report = optimized("shuffle", "float")
    edge = to_edge_transform_and_lower(after, partitioner=[xnnpack.XnnpackPartitioner()])
    assert report.changed and b"XnnpackBackend" in edge.to_executorch().buffer


def test_a_graph_module_stays_one() -> None:
    before = program("there_and_back", "float").module()
    code = before.code
    after, report = eqsat.optimize(before, target=TARGET, check="model")
    (x,) = make("there_and_back")[1]
    assert report.changed and isinstance(after, torch.fx.GraphModule) and before.code == code
    assert torch.allclose(after(x), before(x)) and not moving(after)


def test_a_float_program_has_no_delegate_and_the_model_decides() -> None:
    after, report = eqsat.optimize(program("there_and_back", "float"), target=TARGET)
    assert report.changed and not report.lowered[0].delegates
    assert left(report.lowered[1]) <= left(report.lowered[0])
    assert not moving(after)


def test_the_edge_dialect_is_read_and_written() -> None:
    before = to_edge(program("shuffle", "quantized")).exported_program()
    after, report = eqsat.optimize(before, target=TARGET, check="model")
    assert report.changed and report.exact and not moving(after) and moving(before)
    assert all(type(n.target).__name__ == "EdgeOpOverload" for n in after.graph.nodes if n.op == "call_function")
    assert after.verifiers == before.verifiers


def test_mutated_buffers_stay_outputs() -> None:
    def delayed(self, x):
        y = self.last.transpose(1, 2).transpose(1, 2) + x
        self.last.copy_(x)
        return y

    delay = Network(delayed, last=torch.zeros(1, 4, 3))
    before = torch.export.export(delay, (torch.randn(1, 4, 3),)).run_decompositions({})
    after, report = eqsat.optimize(before, target=TARGET, check="model")
    assert report.changed and list(after.graph_signature.buffers_to_mutate.values()) == ["last"]
    assert signature(after) == signature(before)
    runs = []
    for p in (before, after):
        module = copy.deepcopy(p).module()  # a run writes the buffer, which both programs hold
        runs.append([module(torch.full((1, 4, 3), float(k))) for k in (1, 2, 3)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True)) and runs[0][2][0, 0, 0] == 5


def test_a_dynamic_shape_is_left_alone_with_a_warning() -> None:
    module, (x,) = make("there_and_back")
    before = torch.export.export(module, (x,), dynamic_shapes=(({2: torch.export.Dim("h", min=2, max=9)},),))
    with pytest.warns(eqsat.EqsatWarning, match="fixed shapes"):
        after, report = eqsat.optimize(before, target=TARGET)
    assert after is before and not report.changed and "dynamic" in report.reason


def test_an_unsound_rule_costs_the_gain_and_is_told() -> None:
    before = torch.export.export(Network(lambda _, x: torch.sigmoid(x.transpose(1, 2))), (torch.randn(1, 4, 4),))
    with pytest.warns(eqsat.EqsatWarning, match="not equal"):
        after, report = eqsat.optimize(before, target=TARGET, check="model", options=Options(rules=(UNMOVED,)))
    assert after is before and not report.changed
