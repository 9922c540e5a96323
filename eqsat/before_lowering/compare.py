"""Comparison of two programs, which torch runs node by node.

Outputs depend on values alone, not on strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

from eqsat.before_lowering.program import Program, Source

#: Relative difference that floats of other layouts may have.
RELATIVE = 1e-4
#: Absolute difference that they may have, as a share of the largest output.
ABSOLUTE = 1e-5
#: A float beyond the range of calibrated activations, so that quantize saturates.
_EXTREME = 1e3


@dataclass(frozen=True, slots=True)
class ProgramComparison:
    """The result of a comparison.

    equal: to the bit, or within the tolerance if that was asked for.
    largest: the largest absolute difference.
    reason: what differs; "" if nothing does.
    """

    equal: bool
    largest: float
    reason: str = ""


class _Contiguous(Interpreter):
    """An interpreter that makes every value contiguous.

    Kernels round differently on operands of other strides.
    """

    def run_node(self, n: Node) -> Any:
        return tree_map(lambda v: v.contiguous() if isinstance(v, torch.Tensor) else v, super().run_node(n))


def samples(source: Source, trials: int, seed: int = 0) -> list[list[torch.Tensor]]:
    """Returns values for `source.inputs`, one list per trial.

    The first trials are zeros, extremes and alternating extremes, the others random.
    Integers wider than 16 bits are often indices: they are the example's own, or 0 and 1.
    """
    g = torch.Generator().manual_seed(seed)
    given = _examples(source)
    return [[_sample(n, k, g, given.get(n.name)) for n in source.inputs] for k in range(trials)]


def _sample(node: Node, k: int, g: torch.Generator, example: torch.Tensor | None) -> torch.Tensor:
    """Returns the k-th value of an input."""
    val = node.meta["val"]
    shape, dtype = tuple(val.shape), val.dtype
    even = (torch.arange(val.numel()) % 2 == 0).reshape(shape)
    if dtype.is_floating_point:
        extremes = [torch.zeros(shape), torch.full(shape, _EXTREME), torch.where(even, _EXTREME, -_EXTREME)]
        random = torch.randn(shape, generator=g) * (1 if k % 2 else 4)
    elif dtype in (torch.int8, torch.uint8, torch.int16):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        extremes = [torch.full(shape, low), torch.full(shape, high), torch.where(even, low, high)]
        random = torch.randint(low, high + 1, shape, generator=g)
    else:
        extremes, random = [], torch.randint(0, 2, shape, generator=g) if example is None else example
    return (extremes[k] if k < len(extremes) else random).to(dtype)


def _examples(source: Source) -> dict[str, torch.Tensor]:
    """Returns the example inputs of an ExportedProgram by placeholder name."""
    program = source.program
    if not isinstance(program, ExportedProgram) or not program.example_inputs:
        return {}
    flat = tree_leaves(program.example_inputs)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    return {n: x for n, x in zip(names, flat, strict=False) if isinstance(x, torch.Tensor)}


def run(program: Program, values: Mapping[str, torch.Tensor]) -> list[Any]:
    """Returns the flat outputs, including mutated buffers.

    values: inputs by placeholder name; parameters and buffers are the program's own.
    """
    if isinstance(program, ExportedProgram):
        state, module = {**program.state_dict, **program.constants}, program.graph_module
        specs = program.graph_signature.input_specs
        own = {s.arg.name: state.get(s.target, getattr(s.arg, "value", None)) for s in specs}
    else:
        own, module = {}, program
    found = {**own, **values}
    args = [found.get(n.name) for n in module.graph.nodes if n.op == "placeholder"]
    with torch.no_grad():
        clones = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        result = _Contiguous(module).run(*clones, enable_io_processing=False)
    return tree_leaves(result)


def compare(source: Source, new: Program, trials: int, exact: bool) -> ProgramComparison:
    """Compares all outputs of two programs on `samples`.

    exact: to the bit; otherwise floats are compared within the tolerance.
    """
    largest, names = 0.0, [n.name for n in source.inputs]
    for xs in samples(source, trials):
        values = dict(zip(names, xs, strict=True))
        for slot, (a, b) in enumerate(zip(run(source.program, values), run(new, values), strict=True)):
            if not isinstance(a, torch.Tensor):
                continue
            if a.shape != b.shape or a.dtype != b.dtype:
                found, wanted = (f"{tuple(t.shape)} {t.dtype}" for t in (b, a))
                return ProgramComparison(False, float("inf"), f"output {slot} is {found}, not {wanted}")
            largest = max(largest, _difference(a, b))
            if not _equal(a, b, exact):
                return ProgramComparison(False, largest, f"output {slot} differs by up to {_difference(a, b):g}")
    return ProgramComparison(True, largest)


def _equal(a: torch.Tensor, b: torch.Tensor, exact: bool) -> bool:
    if exact or not a.is_floating_point():
        return torch.allclose(a, b, rtol=0, atol=0, equal_nan=a.is_floating_point())
    scale = float(a[a.isfinite()].abs().max()) if a.isfinite().any() else 1.0
    return torch.allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE * scale, equal_nan=True)


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    d = (a.double() - b.double()).abs()
    finite = d[d.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0
