"""Layouts of a module's inputs and outputs: which are tried, and that they change nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.exir import to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.runtime import Runtime

import eqsat
from eqsat.executorch.compiling import compile_in_best_layout, compile_model
from eqsat.executorch.layouts import in_layout, other_layouts
from eqsat.executorch.names import check_layouts
from eqsat.ground.files import InputError
from tests.networks import Network, written


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
