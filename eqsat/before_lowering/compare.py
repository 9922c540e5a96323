"""Comparison of two programs, which torch runs node by node.

Outputs depend on values alone, not on strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from executorch.exir.passes.constant_prop_pass import get_constant_placeholder_dict
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

from eqsat.before_lowering.lift import ProgramError

#: Relative difference that floats of other layouts may have.
RELATIVE = 1e-4
#: Absolute difference that they may have, as a share of the largest output.
ABSOLUTE = 1e-5
#: A float beyond the range of calibrated activations, so that quantize saturates.
_EXTREME = 1e3


class _Contiguous(Interpreter):
    """An interpreter that makes every value contiguous.

    Kernels round differently on operands of other strides.
    """

    def run_node(self, n: Node) -> Any:
        return tree_map(lambda v: v.contiguous() if isinstance(v, torch.Tensor) else v, super().run_node(n))


def samples(program: ExportedProgram, trials: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Returns values by placeholder of user inputs and of buffers that the program mutates, one dict per trial.

    The first trials are zeros, extremes and alternating extremes, the others random.
    Integers wider than 16 bits are often indices: they are the example's own, or 0 and 1.
    """
    g, fixed = torch.Generator().manual_seed(seed), get_constant_placeholder_dict(program)
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder" and n not in fixed]
    inputs = [n for n in placeholders if isinstance(n.meta.get("val"), torch.Tensor)]
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    given = dict(zip(names, tree_leaves(program.example_inputs or ()), strict=False))
    return [{n.name: _sample(n.meta["val"], k, g, given.get(n.name)) for n in inputs} for k in range(trials)]


def _sample(val: torch.Tensor, k: int, g: torch.Generator, example: torch.Tensor | None) -> torch.Tensor:
    """Returns the k-th value of an input."""
    shape, dtype = tuple(val.shape), val.dtype
    if not dtype.is_floating_point and dtype not in (torch.int8, torch.uint8, torch.int16):
        return torch.randint(0, 2, shape, generator=g).to(dtype) if example is None else example
    signs = (torch.arange(val.numel()) % 2 * 2.0 - 1).reshape(shape)
    unit = (torch.zeros(shape), torch.ones(shape), signs)[k] if k < 3 else torch.rand(shape, generator=g) * 2 - 1
    if dtype.is_floating_point:
        return (unit * (_EXTREME if k < 3 else 4)).to(dtype)
    limits = torch.iinfo(dtype)
    return (limits.min + (unit + 1) / 2 * (limits.max - limits.min)).round().to(dtype)


def run(program: ExportedProgram, values: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs that are tensors, including mutated buffers.

    values: inputs by placeholder name; parameters and buffers are the program's own.
    """
    state = {**program.state_dict, **program.constants}
    specs = program.graph_signature.input_specs
    found = {**{s.arg.name: state.get(s.target, getattr(s.arg, "value", None)) for s in specs}, **values}
    args = [found.get(n.name) for n in program.graph.nodes if n.op == "placeholder"]
    with torch.no_grad():
        clones = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        outputs = tree_leaves(_Contiguous(program.graph_module).run(*clones, enable_io_processing=False))
    return [v for v in outputs if isinstance(v, torch.Tensor)]


def compare(program: ExportedProgram, new: ExportedProgram, trials: int, exact: bool) -> float:
    """Returns the largest difference of all outputs of two programs on `samples`.

    exact: to the bit; otherwise floats are compared within the tolerance.
    Raises ProgramError if an output differs.
    """
    largest = 0.0
    for values in samples(program, trials):
        for slot, (a, b) in enumerate(zip(run(program, values), run(new, values), strict=True)):
            rounds = a.is_floating_point() and not exact
            relative, absolute = (RELATIVE, ABSOLUTE * _largest(a)) if rounds else (0.0, 0.0)
            try:
                torch.testing.assert_close(b, a, rtol=relative, atol=absolute, equal_nan=True, check_stride=False)
            except AssertionError as e:
                raise ProgramError(
                    f"the rewritten program is not equal: output {slot}: {' '.join(str(e).split())}"
                ) from e
            largest = max(largest, _largest(a.double() - b.double()))
    return largest


def _largest(values: torch.Tensor) -> float:
    return float(values.nan_to_num(0.0, 0.0, 0.0).abs().max()) if values.numel() else 0.0
