"""Running a program in torch, node by node, to compare two of them: outputs depend on values alone, not on strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node

from eqsat.fx.program import Program, Source

#: What floats of one program may differ by when float ops act on other layouts, relative and as a share of the largest
#: output.
RELATIVE, ABSOLUTE = 1e-4, 1e-5
#: Beyond the range of any calibrated activation of the programs that this is for: quantize saturates.
_EXTREME = 1e3


@dataclass(frozen=True, slots=True)
class ProgramComparison:
    """equal: bit for bit, or within the tolerance if that was asked for; the largest absolute difference; what
    differed, in words."""

    equal: bool
    largest: float
    reason: str = ""


class _Contiguous(Interpreter):
    """Kernels round differently on differently strided operands: every value is made contiguous, so that equal operands
    give equal results."""

    def run_node(self, n: Node) -> Any:
        return torch.utils._pytree.tree_map(
            lambda v: v.contiguous() if isinstance(v, torch.Tensor) else v, super().run_node(n)
        )


def samples(source: Source, trials: int, seed: int = 0) -> list[list[torch.Tensor]]:
    """Values for `source.inputs`: zeros, extremes and alternating extremes first, then random ones. Integers wider than
    16 bits are often
    indices: they are the example's own, or 0 and 1."""
    g = torch.Generator().manual_seed(seed)
    given = _examples(source)
    out = []
    for k in range(trials):
        xs = []
        for n in source.inputs:
            val = n.meta["val"]
            sign = torch.where(torch.arange(val.numel()).reshape(val.shape) % 2 == 0, 1.0, -1.0)
            if val.is_floating_point():
                extreme = (torch.zeros(val.shape), torch.full(val.shape, _EXTREME), _EXTREME * sign)
                x = extreme[k] if k < 3 else torch.randn(val.shape, generator=g) * (1 if k % 2 else 4)
            elif val.dtype in (torch.int8, torch.uint8, torch.int16):
                limits = torch.iinfo(val.dtype)
                extreme = (
                    torch.full(val.shape, limits.min),
                    torch.full(val.shape, limits.max),
                    torch.where(sign > 0, limits.min, limits.max),
                )
                x = extreme[k] if k < 3 else torch.randint(limits.min, limits.max + 1, tuple(val.shape), generator=g)
            elif n.name in given:
                x = given[n.name]
            else:
                x = torch.randint(0, 2, tuple(val.shape), generator=g)
            xs.append(x.to(val.dtype))
        out.append(xs)
    return out


def _examples(source: Source) -> dict[str, torch.Tensor]:
    """The example inputs of an ExportedProgram by placeholder name."""
    program = source.program
    if not isinstance(program, ExportedProgram) or not program.example_inputs:
        return {}
    flat = torch.utils._pytree.tree_leaves(program.example_inputs)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    return {n: x for n, x in zip(names, flat, strict=False) if isinstance(x, torch.Tensor)}


def run(program: Program, values: dict[str, torch.Tensor]) -> list[Any]:
    """The flat outputs, mutated buffers included, for inputs by placeholder name; whatever the program is not given it
    has itself."""
    if isinstance(program, ExportedProgram):
        state = {**program.state_dict, **program.constants}
        args = []
        for spec in program.graph_signature.input_specs:
            name = getattr(spec.arg, "name", None)
            args.append(
                values[name]
                if name in values
                else state[spec.target]
                if spec.target is not None
                else getattr(spec.arg, "value", None)
            )
        module = program.graph_module
    else:
        module = program
        args = [values.get(n.name) for n in program.graph.nodes if n.op == "placeholder"]
    with torch.no_grad():
        result = _Contiguous(module).run(
            *[a.clone() if isinstance(a, torch.Tensor) else a for a in args], enable_io_processing=False
        )
    return torch.utils._pytree.tree_leaves(result)


def compare(source: Source, new: Program, trials: int, exact: bool, seed: int = 0) -> ProgramComparison:
    """Runs both programs on `samples` and compares every output, to the bit or within the tolerance for floats."""
    largest, names = 0.0, [n.name for n in source.inputs]
    for xs in samples(source, trials, seed):
        values = dict(zip(names, xs, strict=True))
        for slot, (a, b) in enumerate(zip(run(source.program, values), run(new, values), strict=True)):
            if not isinstance(a, torch.Tensor):
                continue
            if a.shape != b.shape or a.dtype != b.dtype:
                return ProgramComparison(
                    False, float("inf"), f"output {slot} is {tuple(b.shape)} {b.dtype}, not {tuple(a.shape)} {a.dtype}"
                )
            largest = max(largest, _difference(a, b))
            if not _equal(a, b, exact):
                return ProgramComparison(False, largest, f"output {slot} differs by up to {_difference(a, b):g}")
    return ProgramComparison(True, largest)


def _equal(a: torch.Tensor, b: torch.Tensor, exact: bool) -> bool:
    if exact or not a.is_floating_point():
        return (
            torch.equal(a, b)
            or a.is_floating_point()
            and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
            and torch.equal(a.isnan(), b.isnan())
        )
    scale = float(a[a.isfinite()].abs().max()) if a.isfinite().any() else 1.0
    return torch.allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE * scale, equal_nan=True)


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    d = (a.double() - b.double()).abs()
    finite = d[d.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


__all__ = ["ABSOLUTE", "RELATIVE", "ProgramComparison", "compare", "run", "samples"]
