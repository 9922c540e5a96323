"""Layouts of a module's inputs and outputs in memory: those of rank 4 are contiguous or channels_last.

The other layout often saves a transposition at the border of the delegate.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from eqsat.search.result import Result
from eqsat.tosa.flatbuffer import loads, tensor_names
from eqsat.vela.table import Row, by_node

#: Names of the inputs and outputs that are channels_last, such as "input 0"; the others are contiguous.
Layout = tuple[str, ...]
#: The model's own layout.
AS_GIVEN = "as given"
#: Most inputs and outputs of rank 4 of which each is tried by itself.
_FEW = 3


def other_layouts(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[Layout]:
    """Returns the layouts to try beside the module's own: all channels_last, none, or, of few, one alone."""
    with torch.no_grad():
        outputs = tree_leaves(module(*inputs))
    tensors = {f"{side} {i}": x for side, of in (("input", inputs), ("output", outputs)) for i, x in enumerate(of)}
    free = {name: x for name, x in tensors.items() if _has_two_layouts(x)}
    given = tuple(name for name, x in free.items() if not x.is_contiguous())
    alone = [(name,) for name in free] if len(free) <= _FEW else []
    return [layout for layout in dict.fromkeys([(), tuple(free), *alone]) if layout != given]


def in_layout(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], layout: Layout
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Returns the module and example inputs with another layout of inputs and outputs."""
    return _WithOutputs(module, layout), tuple(_place(x, f"input {i}" in layout) for i, x in enumerate(inputs))


def describe(layout: Layout) -> str:
    """Returns a layout in words, such as "channels_last: input 0"."""
    return f"channels_last: {', '.join(layout)}" if layout else "contiguous"


@dataclass(frozen=True, slots=True)
class BorderTransposes:
    """TRANSPOSEs that read an input of a delegate or write an output, of rank 4; other layouts may do without.

    cycles: calibrated ones of all of them; other layouts may save fewer or more.
    """

    number: int
    cycles: int

    def advice(self, model: str) -> str:
        """Returns what to try with a model, for the command line; a saved one has fixed layouts."""
        is_saved = model.endswith(".pt2")
        how = "an export with x.to(memory_format=torch.channels_last)" if is_saved else "--layouts auto"
        return f"transposes at the borders of delegates: {self.number}, with {self.cycles:,} of the cycles; try {how}"


def border_transposes(results: Collection[Result]) -> BorderTransposes | None:
    """Returns the TRANSPOSEs at borders of delegates in the graphs that were chosen, None if they take no cycles."""
    found = [cycles for result in results for cycles in _border_cycles(result)]
    return BorderTransposes(len(found), sum(found)) if found else None


def _border_cycles(result: Result) -> list[int]:
    """Returns the calibrated cycles of each TRANSPOSE between an input or output of rank 4 and the rest of a graph."""
    graph, nodes = loads(result.tosa), tensor_names(result.tosa)
    cycles = by_node(map(Row.read, result.table), nodes)
    at_border = []
    for n, node in enumerate(graph.nodes):
        ends = [i for i in node.inputs if i in graph.inputs] + [n] * (n in graph.outputs)
        if node.op == "transpose" and any(len(graph.type(e).shape) == 4 for e in ends):
            at_border.append(n)
    return [calibrated for n in at_border if (calibrated := cycles.get(n, (0, 0))[1])]


class _WithOutputs(torch.nn.Module):
    """A module whose outputs are in a layout."""

    def __init__(self, module: torch.nn.Module, layout: Layout) -> None:
        super().__init__()
        self.module, self.layout = module, layout

    def forward(self, *inputs: torch.Tensor) -> Any:
        outputs, structure = tree_flatten(self.module(*inputs))
        return tree_unflatten([_place(x, f"output {i}" in self.layout) for i, x in enumerate(outputs)], structure)


def _has_two_layouts(x: Any) -> bool:
    """Whether the layouts of a tensor differ, which they do not for one channel or one pixel."""
    if not isinstance(x, torch.Tensor) or x.dim() != 4:
        return False
    return x.is_contiguous() != x.is_contiguous(memory_format=torch.channels_last)


def _place(x: Any, channels_last: bool) -> Any:
    """Returns a tensor of rank 4 in a layout, and anything else as it is."""
    if not isinstance(x, torch.Tensor) or x.dim() != 4:
        return x
    return x.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
