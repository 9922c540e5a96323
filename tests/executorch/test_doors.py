"""The doors to ExecuTorch, of which docs/executorch.md has all; Arm's own calls untouched beside them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
from executorch.backends.arm.ethosu import EthosUPartitioner as ArmPartitioner
from executorch.backends.arm.recipes import ArmRecipeType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.export import ExportRecipe, export
from executorch.runtime import Runtime
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

import eqsat
from eqsat.executorch.backend import ENABLED, mark, session_of
from eqsat.executorch.compiling import compile_in_best_layout, compile_model
from eqsat.executorch.loading import in_layout, load_program, other_layouts, quantize
from eqsat.executorch.names import check_layouts
from eqsat.executorch.partitioner import why_not
from eqsat.executorch.pte import delegates
from eqsat.executorch.session import Delegate, LeftOperator, Session
from eqsat.ground.files import InputError
from eqsat.options.decision import MemoryLimits
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from tests.graphs import recomputed
from tests.networks import Network, pixel_shuffle, sorted_between, written

TARGET = "ethos-u85-256"


class NoRelu(OperatorSupportBase):
    """A user's own check, as Arm's partitioner takes it."""

    def is_node_supported(self, submodules, node) -> bool:
        return "relu" not in str(node.target)


def arm_recipe() -> ExportRecipe:
    return ExportRecipe.get_recipe(ArmRecipeType.ETHOS_U85_INT8)


@pytest.fixture(scope="module")
def program() -> tuple[ExportedProgram, EthosUCompileSpec]:
    """As Arm's recipe makes them."""
    module, inputs = pixel_shuffle()
    spec = arm_recipe().lowering_recipe.partitioners[0].compile_spec
    return quantize(module, inputs, spec, calibration=[inputs]), spec


@pytest.mark.slow
def test_arms_recipe_gives_ours_while_eqsat_is_enabled() -> None:
    module, inputs = pixel_shuffle()
    with eqsat.enabled() as session:
        pte = export(module, [inputs], arm_recipe()).get_pte_buffer()
    (delegate,) = session.delegates
    assert delegate.name == "forward/0" and delegate.result.chosen == "eqsat"
    assert delegate.result.calibrated < delegate.result.stock_calibrated / 2
    assert b"EthosUBackend" in pte and b"qsat" not in pte
    assert session.complete and str(session).startswith("forward/0: ")
    assert not ENABLED


@pytest.mark.slow
def test_several_methods_delegates_and_partitioners() -> None:
    """Two methods with targets of their own, the CPU between two delegates, another partitioner for what is left."""
    torch.manual_seed(0)
    x = (torch.randn(1, 4, 8, 8),)
    first, second, large = (torch.nn.Conv2d(n, 8, 1) for n in (4, 8, 4))
    modules = {"small": sorted_between(first, second), "large": large}
    specs = {"small": EthosUCompileSpec("ethos-u55-128"), "large": EthosUCompileSpec(TARGET)}
    programs = {name: quantize(modules[name], x, spec, calibration=[x]) for name, spec in specs.items()}
    options = eqsat.Options(effort=0)
    ours, arms = eqsat.EthosUPartitioner(specs["small"], options=options), ArmPartitioner(specs["large"])
    per_method = {"small": [ours, XnnpackPartitioner()], "large": [arms, XnnpackPartitioner()]}
    with eqsat.enabled(options) as session:
        pte = stock_lowering(programs, partitioner=per_method).to_executorch().buffer
    for names, own in ((["small/0", "small/1"], ours.session), (["large/0"], session)):
        assert [d.name for d in own.delegates] == names and own.complete
    assert len(delegates(pte)) == 3, "those of both methods"


@pytest.mark.slow
def test_a_users_own_checks_are_respected(program) -> None:
    ours = eqsat.EthosUPartitioner(program[1], [NoRelu()])
    edge = stock_lowering(program[0], partitioner=[ours])
    outside = [str(n.target) for n in edge.exported_program().graph.nodes]
    assert any("relu" in t for t in outside) and ours.session.complete
    edge = eqsat.to_edge_transform_and_lower(program[0], partitioner=[ArmPartitioner(program[1], [NoRelu()])])
    assert [str(n.target) for n in edge.exported_program().graph.nodes] == outside


def lowered_alone(program: ExportedProgram, target: str) -> None:
    stock_lowering(program, partitioner=[eqsat.EthosUPartitioner(target)])


@pytest.mark.slow
def test_a_program_with_nothing_for_the_npu_warns() -> None:
    module, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), torch.randn(2, 3)
    with pytest.warns(eqsat.EqsatWarning, match="no part of the program goes to ethos-u85-256: it is a float model"):
        lowered_alone(torch.export.export(module, (x,)), TARGET)
    dynamic = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=8)},))
    with pytest.warns(eqsat.EqsatWarning, match="it has dynamic shapes"):
        lowered_alone(dynamic, TARGET)
    with pytest.warns(eqsat.EqsatWarning, match="it is a float model"), eqsat.enabled():
        stock_lowering(torch.export.export(module, (x,)), partitioner=[arms()])
    with pytest.warns(eqsat.EqsatWarning, match="nothing was lowered"), eqsat.enabled():
        pass


def nonzero() -> Network:
    return Network(lambda self, x: torch.nonzero(x))


def whole_numbers() -> torch.Tensor:
    return torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4)


@pytest.mark.slow
def test_a_program_of_integers_needs_no_quantization(tmp_path) -> None:
    x, both = whole_numbers(), Network(lambda self, x, y: torch.bitwise_and(x, y))
    torch.export.save(torch.export.export(both, (x, x + 1)), tmp_path / "and.pt2")
    program, _ = load_program(str(tmp_path / "and.pt2"), EthosUCompileSpec(TARGET))
    _, session = eqsat.lower_with_session(program, TARGET)
    assert session.complete and why_not(torch.export.export(both, (x > 0, x < 0))) == ""


@pytest.mark.slow
def test_shapes_that_depend_on_values_are_called_so(tmp_path) -> None:
    program = torch.export.export(nonzero(), (whole_numbers(),))
    with pytest.warns(eqsat.EqsatWarning, match="shapes in it depend on values"):
        lowered_alone(program, TARGET)
    torch.export.save(program, tmp_path / "nonzero.pt2")
    with pytest.raises(InputError, match="shapes that depend on values"):
        load_program(str(tmp_path / "nonzero.pt2"), EthosUCompileSpec(TARGET))
    (tmp_path / "nonzero.py").write_text(
        "import torch\nfrom tests.executorch.test_doors import nonzero\n\n\n"
        "def model():\n    return nonzero(), (torch.ones(3, 4),)\n"
    )
    with pytest.raises(InputError, match="no part of .* can run on .*: shapes in it depend on values"):
        compile_model(f"{tmp_path / 'nonzero.py'}:model", EthosUCompileSpec(TARGET), eqsat.Options())


LOWER = eqsat.to_edge_transform_and_lower


def arms() -> ArmPartitioner:
    return ArmPartitioner(EthosUCompileSpec(TARGET))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda p: eqsat.EthosUPartitioner("ethos-u99-1"), eqsat.TargetError, "ethos-u99-1"),
        (lambda p: eqsat.EthosUPartitioner(7), TypeError, "not int"),
        (lambda p: eqsat.EthosUPartitioner(TARGET, options="tolerant"), TypeError, "options are"),
        (lambda p: eqsat.enabled(options={}).__enter__(), TypeError, "options are"),
        (lambda p: LOWER(p), TypeError, "no target"),
        (lambda p: LOWER(p, partitioner=[XnnpackPartitioner()]), TypeError, "no target"),
        (lambda p: LOWER(p, "ethos-u99-1"), eqsat.TargetError, "ethos-u99-1"),
        (lambda p: LOWER(p, TARGET, options=1), TypeError, "options are"),
        (lambda p: LOWER(p, TARGET, partitioner=[arms()]), TypeError, "both a compile_spec and an EthosUPartitioner"),
        (lambda p: LOWER(p, partitioner=[eqsat.EthosUPartitioner(TARGET)]), TypeError, "ExecuTorch's own"),
        (lambda p: eqsat.optimize(p, target=3), TypeError, "not int"),
        (lambda p: eqsat.optimize(p, target="ethos-u99"), eqsat.TargetError, "ethos-u85-256"),
        (lambda p: eqsat.optimize(torch.nn.ReLU(), target=TARGET), TypeError, "ExportedProgram"),
    ],
)
def test_arguments_are_checked_before_work_starts(call, error: type[Exception], words: str) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(2, 3),))
    with pytest.raises(error, match=words):
        call(program)
    assert not ENABLED


def test_the_mark_is_no_part_of_what_is_written() -> None:
    specs = EthosUCompileSpec(TARGET)._to_list()
    session = eqsat.Session(eqsat.Options())
    marked = mark(specs, session)
    assert marked == specs and session_of(marked) is session and session_of(specs) is None
    assert session_of(copy.deepcopy(marked)) is session
    assert type(pickle.loads(pickle.dumps(marked[-1])).value) is bytes
    del session
    assert session_of(marked) is None


def test_a_delegate_without_a_session_goes_to_arms_own_code() -> None:
    eqsat.EthosUPartitioner(TARGET)
    specs = EthosUCompileSpec(TARGET)._to_list()
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(2, 3),))
    with pytest.raises(Exception) as e:  # noqa: B017 - a float program, which Arm does not take
        EthosUBackend.preprocess(program, specs)
    assert any("executorch/backends/arm/ethosu/backend.py" in str(t.path) for t in e.traceback)


def test_a_delegate_at_work_has_not_stepped_back() -> None:
    session = Session(Options(), [Delegate("forward/0")])
    assert session.stepped_back == 0 and not session.complete
    session.delegates[0].error = "RuntimeError: no"
    assert session.stepped_back == 1 and not session.complete and "eqsat fell back" in str(session)


def test_what_is_left_is_told_with_the_reason_and_the_remedy() -> None:
    left = [LeftOperator("aten.sort", 2, "not in a list", "write less"), LeftOperator("aten.mul", 1)]
    session = Session(Options(), left=left)
    told = "left to the CPU: aten.sort 2 (not in a list; write less), aten.mul 1"
    assert str(session).splitlines() == ["no delegates", told]
    assert repr(session) == "<Session: 0 delegate(s), unknown -> unknown cycles, 3 operator(s) left>"
    assert "<p>left to the CPU: aten.sort 2" in session._repr_html_()


@pytest.mark.slow
def test_a_line_tells_what_a_limit_of_memory_costs_and_what_does_not_fit(tmp_path: Path) -> None:
    options = Options(effort=1, cache=tmp_path, max_flash="any", binary_time_limit=0)
    given = dumps(recomputed())

    too_large = optimize_tosa(given, "ethos-u55-128", options=replace(options, max_sram=1, effort=0))
    line = str(Delegate("forward/0", too_large))
    assert line.count("; does not fit: ") == 1 and "limit" not in line
    result = optimize_tosa(given, "ethos-u55-128", options=options)
    slower = replace(result.figures["eqsat"], calibrated=result.explicit_calibrated + 1)
    paid = replace(
        result, figures={**result.figures, "eqsat": slower}, limits=MemoryLimits(result.explicit_footprint.sram - 1)
    )
    assert f"; {paid.price_of_limits}; bit-exact" in str(Delegate("forward/0", paid))
    assert paid.price_of_limits.startswith("SRAM ") and "(limit " in paid.price_of_limits
    assert replace(paid, figures=result.figures).price_of_limits == ""


def test_layouts_are_of_inputs_and_outputs_of_rank_4_all_at_once_and_few_alone() -> None:
    image, row = torch.randn(1, 3, 4, 4), torch.randn(1, 5)
    several = Network(lambda self, *inputs: tuple(x + 1 for x in inputs))
    one = ("input 0", "output 0")
    assert other_layouts(several, (image, row)) == [one, ("input 0",), ("output 0",)]
    assert other_layouts(several, (row, image[:, :1])) == []  # one channel lies the same either way
    assert other_layouts(several, (image, image)) == [("input 0", "input 1", "output 0", "output 1")]
    channels_last = image.contiguous(memory_format=torch.channels_last)
    assert other_layouts(several, (channels_last, row)) == [(), ("input 0",), ("output 0",)]


@pytest.mark.parametrize("layout", [(), ("input 0",), ("output 1",), ("input 0", "output 1")])
def test_a_module_in_another_layout_computes_the_same(layout: tuple[str, ...]) -> None:
    module, image, row = torch.nn.Conv2d(3, 2, 3), torch.randn(1, 3, 4, 4), torch.randn(1, 5)
    two = Network(lambda self, x, y: {"row": 2 * y, "image": module(x)})
    changed, inputs = in_layout(two, (image, row), layout)
    assert [x.is_contiguous() for x in inputs] == ["input 0" not in layout, True]
    before, after = two(image, row), changed(*inputs)
    assert before.keys() == after.keys() and after["image"].is_contiguous() == ("output 1" not in layout)
    assert all(torch.allclose(before[k], after[k], atol=1e-6) for k in before)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_upsampling_on_the_cpu_gives_the_same_bits_in_both_layouts(mode: str) -> None:
    """With the kernels of ExecuTorch's runtime, between delegates."""
    torch.manual_seed(0)
    module, x = torch.nn.Upsample(scale_factor=2, mode=mode).eval(), torch.randn(1, 8, 7, 9)
    found = []
    for layout in ((), ("input 0", "output 0")):
        changed, inputs = in_layout(module, (x,), layout)
        pte = to_edge_transform_and_lower(torch.export.export(changed, inputs)).to_executorch().buffer
        (y,) = Runtime.get().load_program(pte).load_method("forward").execute(inputs)
        assert y.is_contiguous() == (not layout)
        found.append(y)
    assert torch.equal(*found)


@pytest.mark.slow
def test_the_layout_with_the_fewest_cycles_is_in_the_pte_and_a_dearer_one_tells_of_its_transposes(
    tmp_path: Path,
) -> None:
    model = written(tmp_path / "image.py", "Sequential(Conv2d(3, 16, 3, 2), ReLU())", 1, 3, 32, 32)
    spec, options = EthosUCompileSpec("ethos-u85-256"), eqsat.Options(effort=0, cache=tmp_path / "store")
    pte, summary = compile_in_best_layout(model, spec, options)
    assert summary.layout in summary.layouts and len(summary.layouts) == 4
    assert summary.layouts[summary.layout] == min(summary.layouts.values()) < summary.layouts["as given"]
    assert summary.figures["eqsat"].calibrated == summary.layouts[summary.layout]
    (plan,) = deserialize_pte_binary(pte).program.execution_plan
    orders = {s: [list(plan.values[k].val.dim_order) for k in getattr(plan, s)] for s in ("inputs", "outputs")}
    for side, found in orders.items():
        assert found == [[0, 2, 3, 1] if f"{side[:-1]} 0" in summary.layout else [0, 1, 2, 3]]
    _, given = compile_model(model, spec, options)
    (result,) = given.results.values()
    cycles = sum(row["calibrated"] for row in result.table if row["operator"] == "Transpose")
    assert given.as_dict()["border_transposes"] == {"number": 1, "cycles": cycles} and cycles > 0
    assert given.border_transposes.advice(model).endswith(f"1, with {cycles:,} of the cycles; try --layouts auto")
    assert summary.border_transposes is None, "the best layout has none of them"


@pytest.mark.parametrize(
    ("layouts", "place", "said"),
    [("best", "m.py:model", "--layouts is keep or auto"), ("auto", "m.pt2", "the layouts of m.pt2 are fixed: export")],
)
def test_layouts_that_cannot_be_are_refused_with_the_remedy(layouts: str, place: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_layouts(layouts, place)
