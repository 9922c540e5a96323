"""One case, lowered by stock ExecuTorch and by eqsat, and run."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter
from torch.utils._pytree import tree_leaves

import eqsat
from benchmarks.operators.cases import Case
from eqsat.bench.capture import Captured, capturing
from eqsat.bench.records import Record
from eqsat.executorch import forms, tables
from eqsat.executorch.backend import innermost
from eqsat.executorch.loading import quantize
from eqsat.executorch.lowering import cpu_operators
from eqsat.executorch.nodes import is_dequantize
from eqsat.tensor.types import DType
from eqsat.tosa import loads

#: Operators around a delegate that are no operators of the model.
_AROUND = ("quantized_decomposed.quantize_per_tensor", "quantized_decomposed.dequantize_per_tensor")


def measure(case: Case, target: str) -> Record:
    """Returns what becomes of a case on a target, under "stock" and "eqsat"."""
    module, inputs = case.network()
    spec = EthosUCompileSpec(target)
    try:
        program = quantize(module, inputs, spec)
    except Exception as e:  # noqa: BLE001 - whatever ExecuTorch's quantizer raises
        failed = {"error": f"not quantized: {innermost(e)[:300]}"}
        return {"eqsat": {**failed, "left": []}, "changes": [], "stock": failed}
    samples = [inputs, *((torch.randn(x.shape),) for x in inputs)]
    expected = [tree_leaves(program.module()(*sample)) for sample in samples]
    steps = _steps(program)

    def told(lowered: EdgeProgramManager | str, tosa: Mapping[bytes, bytes]) -> Record:
        if isinstance(lowered, str):
            return {"error": lowered}
        outside = {name: n for name, n in cpu_operators(lowered).items() if name not in _AROUND}
        record: Record = {"cpu": outside, "delegates": len(tosa)}
        try:
            found = [_run(lowered.exported_program(), tosa, sample) for sample in samples]
        except Exception as e:  # noqa: BLE001 - an operator of TOSA that eqsat does not evaluate, such as CONV3D
            return {**record, "differences": None, "not_run": innermost(e)[:300]}
        return {**record, "differences": differences(found, expected, steps)}

    with warnings.catch_warnings(action="ignore"):
        ours = eqsat.EthosUPartitioner(spec)
        with _noted() as changes:
            lowered, found = _lowered(copy.deepcopy(program), ours)
        explicit = {payload: c.explicit.tosa or b"" for payload, c in found.items()}
        record = {"eqsat": told(lowered, explicit), "changes": changes}
        left = [o for o in ours.session.left if o.name not in _AROUND]
        kept_out = any("floating point" in o.reason for o in left)
        if changes or kept_out or isinstance(lowered, str):  # else both partitioners do the same
            lowered, found = _lowered(program, EthosUPartitioner(spec))
        record["stock"] = told(lowered, {payload: c.stock.tosa or b"" for payload, c in found.items()})
    record["eqsat"]["left"] = [asdict(o) for o in left]
    return record


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Yields what eqsat logs of its changes to programs meanwhile."""
    found: list[str] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    loggers = (tables.logger, forms.logger)
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)


def _lowered(
    program: ExportedProgram, partitioner: EthosUPartitioner
) -> tuple[EdgeProgramManager | str, dict[bytes, Captured]]:
    """Lowers with a partitioner, and returns the program, or why there is none, and its delegates by payload."""
    try:
        with capturing(partitioner) as found:
            lowered = to_edge_transform_and_lower(program, partitioner=[partitioner])
    except Exception as e:  # noqa: BLE001 - it is what becomes of the case
        return innermost(e)[:300], {}
    failed = next((reason for c in found if (reason := c.stock.error or c.refused)), "")
    return failed[:300] or lowered, {c.payload: c for c in found}


class _Lowered(Interpreter):
    """Runs a lowered program: delegates by the semantics of their TOSA, the rest by PyTorch."""

    def __init__(self, module: torch.fx.GraphModule, tosa: Mapping[bytes, bytes]) -> None:
        super().__init__(module)
        self.tosa = tosa

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "executorch_call_delegate" not in str(target):
            return super().call_function(target, args, kwargs)
        graph = loads(self.tosa[args[0].processed_bytes])
        types = [DType.of(graph.type(i).dtype).storage for i in graph.inputs]
        results = graph.evaluate([x.detach().contiguous().numpy().astype(t) for x, t in zip(args[1:], types)])
        return [torch.from_numpy(np.ascontiguousarray(y)) for y in results]


def _run(program: ExportedProgram, tosa: Mapping[bytes, bytes], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs of a lowered program.

    tosa: of its delegates, by their payload.
    """
    of_user = iter(inputs)
    known = {**program.state_dict, **program.constants}
    specs = program.graph_signature.input_specs
    values = [next(of_user) if s.kind is InputKind.USER_INPUT else known[s.target] for s in specs]
    with torch.no_grad():
        return tree_leaves(_Lowered(program.graph_module, tosa).run(*values))


def _steps(program: ExportedProgram) -> list[float]:
    """Returns the step of quantization of each output, 0 for one that is not dequantized."""
    outputs = tree_leaves(list(program.graph.output_node().args[0]))
    return [float(n.args[1]) if is_dequantize(n) else 0.0 for n in outputs]


def differences(
    found: Sequence[Sequence[torch.Tensor]], expected: Sequence[Sequence[torch.Tensor]], steps: Sequence[float]
) -> tuple[float, float]:
    """Returns (the largest difference, the share of elements that differ) over the outputs of all samples.

    The difference is in steps of an output's quantization, in units for integers.
    For floats that are not quantized it is in 255ths of their range.
    """
    largest, differing, elements = 0.0, 0, 0
    for outputs, wanted in zip(found, expected, strict=True):
        for y, z, step in zip(outputs, wanted, steps, strict=True):
            unit = step or (float(z.max() - z.min()) / 255 or 1.0 if z.is_floating_point() else 1.0)
            apart = (y.double() - z.double()).abs() / unit
            apart = apart.round() if step else apart
            largest = max(largest, float(apart.max()))
            differing += int((apart > (0 if step else 1e-3)).sum())
            elements += apart.numel()
    return round(largest, 2), round(differing / elements, 4)
