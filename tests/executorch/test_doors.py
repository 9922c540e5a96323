"""The doors to ExecuTorch, of which docs/executorch.md has all; Arm's own calls untouched beside them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
from executorch.backends.arm.ethosu import EthosUPartitioner as ArmPartitioner
from executorch.backends.arm.recipes import ArmRecipeType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
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
from tests.networks import Network, pixel_shuffle, sorted_between

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
    """Two methods with targets of their own, the CPU between two delegates of one, and another partitioner for what is
    left."""
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
