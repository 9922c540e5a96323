"""Layouts of a module's inputs and outputs: which are tried, and that they change nothing else."""

from __future__ import annotations

import pytest
import torch

from eqsat.executorch.layouts import in_layout, other_layouts


def test_layouts_are_of_inputs_and_outputs_of_rank_4_all_at_once_and_few_alone() -> None:
    image, row = torch.randn(1, 3, 4, 4), torch.randn(1, 5)

    class Several(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(x + 1 for x in inputs)

    one = ("input 0", "output 0")
    assert other_layouts(Several(), (image, row)) == [one, ("input 0",), ("output 0",)]
    assert other_layouts(Several(), (row, image[:, :1])) == []  # one channel lies the same either way
    assert other_layouts(Several(), (image, image)) == [("input 0", "input 1", "output 0", "output 1")]
    channels_last = image.contiguous(memory_format=torch.channels_last)
    assert other_layouts(Several(), (channels_last, row)) == [(), ("input 0",), ("output 0",)]


@pytest.mark.parametrize("layout", [(), ("input 0",), ("output 1",), ("input 0", "output 1")])
def test_a_module_in_another_layout_computes_the_same(layout: tuple[str, ...]) -> None:
    module, image, row = torch.nn.Conv2d(3, 2, 3), torch.randn(1, 3, 4, 4), torch.randn(1, 5)

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"row": 2 * y, "image": module(x)}

    changed, inputs = in_layout(Two(), (image, row), layout)
    assert [x.is_contiguous() for x in inputs] == ["input 0" not in layout, True]
    before, after = Two()(image, row), changed(*inputs)
    assert before.keys() == after.keys() and after["image"].is_contiguous() == ("output 1" not in layout)
    assert all(torch.allclose(before[k], after[k], atol=1e-6) for k in before)
