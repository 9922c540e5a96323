"""All doors to ExecuTorch: one result, whichever is taken; Arm's own calls untouched beside them."""

from __future__ import annotations

import copy
import pickle
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
from executorch.backends.arm.ethosu import EthosUPartitioner as ArmPartitioner
from executorch.backends.arm.recipes import ArmRecipeType
from executorch.backends.cortex_m.passes.replace_quant_nodes_pass import ReplaceQuantNodesPass
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from executorch.export import ExportRecipe, export
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

import eqsat
from eqsat.executorch.backend import ENABLED, mark, session_of
from eqsat.executorch.compiling import compile_model
from eqsat.executorch.loading import load_program
from eqsat.executorch.partitioner import why_not
from eqsat.executorch.pte import delegates
from eqsat.executorch.quantize import quantize
from eqsat.ground.files import InputError
from eqsat.ground.registry import load
from eqsat.tosa import loads

TARGET = "ethos-u85-256"
MODEL = """
import torch

class Upscale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 16, 3, padding=1)

    def forward(self, x):
        return torch.relu(torch.pixel_shuffle(self.conv(x), 2))

torch.manual_seed(0)
ModelUnderTest, ModelInputs = Upscale().eval(), (torch.randn(1, 4, 8, 8),)
"""


class Sorted(torch.nn.Module):
    """sort stays outside of the NPU, between two delegates."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(4, 8, 1), torch.nn.Conv2d(8, 8, 1)

    def forward(self, x):
        return torch.relu(self.b(torch.sort(torch.relu(self.a(x)), dim=3)[0]))


class NoRelu(OperatorSupportBase):
    """A user's own check, as Arm's partitioner takes it."""

    def is_node_supported(self, submodules, node) -> bool:
        return "relu" not in str(node.target)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module, tuple[torch.Tensor, ...]]:
    path = tmp_path_factory.mktemp("model") / "upscale.py"
    path.write_text(MODEL)
    found = load(str(path))
    return path, found.ModelUnderTest, found.ModelInputs


@pytest.fixture(scope="module")
def by_recipe(model) -> bytes:
    recipe = ExportRecipe.get_recipe(eqsat.RecipeType.ETHOS_U85_INT8)
    (partitioner,) = recipe.lowering_recipe.partitioners
    pte = export(model[1], [model[2]], recipe).get_pte_buffer()
    (delegate,) = partitioner.session.delegates
    assert delegate.name == "forward/0" and delegate.result.chosen == "eqsat"
    assert delegate.result.calibrated < delegate.result.stock_calibrated / 2
    return pte


def arm_recipe() -> ExportRecipe:
    return ExportRecipe.get_recipe(ArmRecipeType.ETHOS_U85_INT8)


def finished(edge) -> bytes:
    """What Arm's recipes and its script do after the lowering."""
    edge = edge.transform([ReplaceQuantNodesPass()])
    return edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False)).buffer


@pytest.fixture(scope="module")
def program(model) -> tuple[ExportedProgram, EthosUCompileSpec]:
    """As Arm's recipe makes them."""
    recipe = arm_recipe()
    spec = recipe.lowering_recipe.partitioners[0].compile_spec
    return quantize(model[1], model[2], spec, calibration=[model[2]]), spec


def _partitioner(program: ExportedProgram, spec: EthosUCompileSpec) -> bytes:
    ours, config = eqsat.EthosUPartitioner(spec), EdgeCompileConfig(_check_ir_validity=False)
    return finished(stock_lowering(program, partitioner=[ours], compile_config=config))


def _changed_import(program: ExportedProgram, spec: EthosUCompileSpec) -> bytes:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return finished(
        eqsat.to_edge_transform_and_lower(program, partitioner=[ArmPartitioner(spec)], compile_config=config)
    )


@pytest.mark.slow
@pytest.mark.parametrize("door", [_partitioner, _changed_import])
def test_one_pte_whichever_call_is_changed(
    door: Callable[[ExportedProgram, EthosUCompileSpec], bytes], program, by_recipe: bytes
) -> None:
    assert door(*program) == by_recipe
    assert b"EthosUBackend" in by_recipe and b"qsat" not in by_recipe


@pytest.mark.slow
def test_arms_recipe_gives_it_while_eqsat_is_enabled_and_stocks_own_afterwards(model, by_recipe: bytes) -> None:
    before = ArmPartitioner.partition
    with eqsat.enabled() as session:
        assert export(model[1], [model[2]], arm_recipe()).get_pte_buffer() == by_recipe
    assert session.complete and str(session).startswith("forward/0: ")
    assert ArmPartitioner.partition is before and not ENABLED
    assert export(model[1], [model[2]], arm_recipe()).get_pte_buffer() != by_recipe


@pytest.mark.slow
def test_arms_script_gives_it_without_a_changed_line(
    model, by_recipe: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "upscale.pte"
    call = ["aot_arm_compiler", "-m", str(model[0]), "-d", "-q", "-t", TARGET, "-o", str(out)]
    monkeypatch.setattr(sys, "argv", call)
    with eqsat.enabled() as session:
        runpy.run_module("executorch.backends.arm.scripts.aot_arm_compiler", run_name="__main__")
    assert session.complete and out.read_bytes() == by_recipe


@pytest.mark.slow
def test_a_recipe_of_int16_lowers_with_fewer_cycles(model) -> None:
    recipe = ExportRecipe.get_recipe(eqsat.RecipeType.ETHOS_U55_A16W8)
    (partitioner,) = recipe.lowering_recipe.partitioners
    pte = export(model[1], [model[2]], recipe).get_pte_buffer()
    session = partitioner.session
    assert session.complete and session.calibrated < session.stock_calibrated and b"EthosUBackend" in pte
    assert any(n.dtype == "INT48" for r in session.results for n in loads(r.explicit).nodes)


def test_a_recipe_takes_every_accelerator_and_nothing_unknown() -> None:
    for family, macs in (("U55", 32), ("U65", 512), ("U85", 2048)):
        for quantization in ("INT8", "A16W8"):
            recipe = ExportRecipe.get_recipe(eqsat.RecipeType[f"ETHOS_{family}_{quantization}"], macs=macs)
            (partitioner,) = recipe.lowering_recipe.partitioners
            assert partitioner.compile_spec.target == f"ethos-{family.lower()}-{macs}"
    with pytest.raises(ValueError, match="macs=100"):
        ExportRecipe.get_recipe(eqsat.RecipeType.ETHOS_U55_INT8, macs=100)
    with pytest.raises(TypeError, match="takes macs, .*, not mac"):
        ExportRecipe.get_recipe(eqsat.RecipeType.ETHOS_U55_INT8, mac=128)
    with pytest.raises(TypeError, match="options are"):
        ExportRecipe.get_recipe(eqsat.RecipeType.ETHOS_U55_INT8, options="tolerant")


@pytest.mark.slow
def test_several_methods_delegates_and_partitioners() -> None:
    """Two methods with targets of their own, the CPU between two delegates of one, and another partitioner for what is
    left."""
    torch.manual_seed(0)
    x = (torch.randn(1, 4, 8, 8),)
    specs = {"small": EthosUCompileSpec("ethos-u55-128"), "large": EthosUCompileSpec(TARGET)}
    programs = {name: quantize(Sorted().eval(), x, spec, calibration=[x]) for name, spec in specs.items()}
    options = eqsat.Options(effort=0)
    ours, arms = eqsat.EthosUPartitioner(specs["small"], options=options), ArmPartitioner(specs["large"])
    per_method = {"small": [ours, XnnpackPartitioner()], "large": [arms, XnnpackPartitioner()]}
    with eqsat.enabled(options) as session:
        pte = stock_lowering(programs, partitioner=per_method).to_executorch().buffer
    for name, own in (("small", ours.session), ("large", session)):
        assert [d.name for d in own.delegates] == [f"{name}/0", f"{name}/1"] and own.complete
    assert len(delegates(pte)) == 4, "those of both methods"


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
        stock_lowering(torch.export.export(module, (x,)), partitioner=[ArmPartitioner(EthosUCompileSpec(TARGET))])
    with pytest.warns(eqsat.EqsatWarning, match="nothing was lowered"), eqsat.enabled():
        pass


class And(torch.nn.Module):
    def forward(self, x, y):
        return torch.bitwise_and(x, y)


class Nonzero(torch.nn.Module):
    def forward(self, x):
        return torch.nonzero(x)


def whole_numbers() -> torch.Tensor:
    return torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4)


@pytest.mark.slow
def test_a_program_of_integers_needs_no_quantization(tmp_path) -> None:
    x = whole_numbers()
    torch.export.save(torch.export.export(And(), (x, x + 1)), tmp_path / "and.pt2")
    program, _ = load_program(str(tmp_path / "and.pt2"), EthosUCompileSpec(TARGET))
    _, session = eqsat.lower_with_session(program, TARGET)
    assert session.complete and why_not(torch.export.export(And(), (x > 0, x < 0))) == ""


@pytest.mark.slow
def test_shapes_that_depend_on_values_are_called_so(tmp_path) -> None:
    program = torch.export.export(Nonzero(), (whole_numbers(),))
    with pytest.warns(eqsat.EqsatWarning, match="shapes in it depend on values"):
        lowered_alone(program, TARGET)
    torch.export.save(program, tmp_path / "nonzero.pt2")
    with pytest.raises(InputError, match="shapes that depend on values"):
        load_program(str(tmp_path / "nonzero.pt2"), EthosUCompileSpec(TARGET))
    (tmp_path / "nonzero.py").write_text(
        "import torch\nfrom tests.executorch.test_doors import Nonzero\n\n\n"
        "def model():\n    return Nonzero(), (torch.ones(3, 4),)\n"
    )
    with pytest.raises(InputError, match="no part of .* can run on .*: shapes in it depend on values"):
        compile_model(f"{tmp_path / 'nonzero.py'}:model", EthosUCompileSpec(TARGET), eqsat.Options())


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda p: eqsat.EthosUPartitioner("ethos-u99-1"), eqsat.TargetError, "ethos-u99-1"),
        (lambda p: eqsat.EthosUPartitioner(7), TypeError, "not int"),
        (lambda p: eqsat.EthosUPartitioner(TARGET, options="tolerant"), TypeError, "options are"),
        (lambda p: eqsat.enabled(options={}).__enter__(), TypeError, "options are"),
        (lambda p: eqsat.AtenPass("u85"), eqsat.TargetError, "u85"),
        (lambda p: eqsat.AtenPass(TARGET, check="never"), ValueError, "never"),
        (lambda p: eqsat.to_edge_transform_and_lower(p), TypeError, "no target"),
        (lambda p: eqsat.to_edge_transform_and_lower(p, partitioner=[XnnpackPartitioner()]), TypeError, "no target"),
        (lambda p: eqsat.to_edge_transform_and_lower(p, "ethos-u99-1"), eqsat.TargetError, "ethos-u99-1"),
        (lambda p: eqsat.to_edge_transform_and_lower(p, TARGET, options=1), TypeError, "options are"),
        (
            lambda p: eqsat.to_edge_transform_and_lower(
                p, TARGET, partitioner=[ArmPartitioner(EthosUCompileSpec(TARGET))]
            ),
            TypeError,
            "both a compile_spec and an EthosUPartitioner",
        ),
        (
            lambda p: eqsat.to_edge_transform_and_lower(p, partitioner=[eqsat.EthosUPartitioner(TARGET)]),
            TypeError,
            "ExecuTorch's own",
        ),
        (lambda p: eqsat.optimize(p, target=3), TypeError, "not int"),
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
