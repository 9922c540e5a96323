"""Quantized programs by the names that users give (saved ones, or callables that make the model), and their layouts."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from eqsat.executorch import pt2
from eqsat.executorch.names import A16W8, INT8, check_quantization, model_place
from eqsat.executorch.partitioner import why_not
from eqsat.ground.files import InputError, PluginError
from eqsat.ground.registry import load
from eqsat.search.result import Result
from eqsat.tosa.flatbuffer import loads, tensor_names
from eqsat.vela.table import Row, by_node

_CONFIGURATIONS = {INT8: get_symmetric_quantization_config, A16W8: get_symmetric_a16w8_quantization_config}


def quantize(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    compile_spec: EthosUCompileSpec,
    calibration: Sequence[tuple[torch.Tensor, ...]] | None = None,
    quantization: str = INT8,
) -> ExportedProgram:
    """Returns the program of `module` (in eval mode), quantized and calibrated.

    calibration: batches; without them, `inputs` and 3 random batches like them are used.
    quantization: one of QUANTIZATIONS.
    """
    module = module.eval()
    quantizer = EthosUQuantizer(compile_spec)
    quantizer.set_global(_CONFIGURATIONS[quantization]())
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(check_guards=False), quantizer)
    for batch in calibration or [inputs, *(_like(inputs, seed) for seed in range(3))]:
        prepared(*batch)
    return torch.export.export(convert_pt2e(prepared), inputs)


def _like(inputs: tuple[torch.Tensor, ...], seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(x.shape, generator=generator, dtype=x.dtype) if x.is_floating_point() else x for x in inputs
    )


# Inputs and outputs of rank 4 are contiguous or channels_last in memory; the layout that is not the model's own often
# saves a transposition at the border of the delegate.

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


logger = logging.getLogger(__name__)


def load_program(
    model: str, spec: EthosUCompileSpec, quantization: str = INT8, layout: Layout | None = None
) -> tuple[ExportedProgram, str]:
    """Returns (quantized program, how it was calibrated) of a model.

    model: a `.pt2` file, a `file.py:callable`, a `module:callable` or an entry point.
    The callable returns (module, example inputs) or (module, example inputs, calibration batches).
    quantization: one of QUANTIZATIONS, for the module of a callable.
    layout: of its inputs and outputs; None: as they are.
    Raises InputError.
    """
    check_quantization(quantization, model)
    place = model_place(model)
    if model.endswith(".pt2"):
        logger.info("loading %s", model, extra={"stage": "loading"})
        program, calibration = pt2.load(Path(place)), "as saved"
    else:
        module, inputs, batches = load_module(model)
        if layout is not None:
            module, inputs = in_layout(module, inputs, layout)
        logger.info("quantizing %s", model, extra={"stage": "quantizing"})
        try:
            program = quantize(module, inputs, spec, batches, quantization)
        except Exception as e:  # noqa: BLE001 - export and calibration run the user's module
            raise InputError(
                f"{model} cannot be exported and quantized: {type(e).__name__}: {' '.join(str(e).split())[:300]}"
            ) from e
        calibration = "given batches" if batches else "random batches (no calibration data was given)"
    if reason := why_not(program):
        raise InputError(f"{model} cannot go to an Ethos-U: {reason}")
    return program, calibration


def load_module(
    model: str,
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], Sequence[tuple[torch.Tensor, ...]] | None]:
    """Returns (module, example inputs, calibration batches if any) of a callable. Raises InputError, PluginError."""
    place = model_place(model)
    make = load(place)
    if not callable(make):
        raise InputError(f"{place} is no callable: it must return (module, example inputs)")
    try:
        made = make()
    except (Exception, SystemExit) as e:  # noqa: BLE001 - a user's function can raise anything
        raise PluginError(f"{model} failed: {type(e).__name__}: {' '.join(str(e).split())}") from e
    if (
        not isinstance(made, tuple)
        or len(made) not in (2, 3)
        or not isinstance(made[0], torch.nn.Module)
        or not isinstance(made[1], tuple | list)
    ):
        raise InputError(
            f"{model} must return (module, example inputs) or (module, example inputs, calibration batches), "
            "where example inputs are a tuple"
        )
    return made[0], tuple(made[1]), made[2] if len(made) == 3 else None


def layouts_to_try(model: str) -> dict[str, Layout]:
    """Returns the layouts of inputs and outputs beside a model's own, by name; none for a file. Raises InputError."""
    if model.endswith((".pt2", ".tosa")):
        return {}
    module, inputs, _ = load_module(model)
    return {describe(layout): layout for layout in other_layouts(module.eval(), inputs)}
