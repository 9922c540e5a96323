"""The Ethos-U delegates of a .pte file, with what the program around them knows of their tensors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.executorch.program_file import input_errors, read_program, segment_at
from eqsat.ground.files import InputError

#: The backend's name in a .pte.
_BACKEND = "EthosUBackend"
#: Operators at the border: PyTorch's, and those that Cortex-M's `ReplaceQuantNodesPass` puts in their place.
_LIBRARIES = ("quantized_decomposed", "cortex_m")
_QUANTIZE, _DEQUANTIZE = ({f"{library}::{w}quantize_per_tensor" for library in _LIBRARIES} for w in ("", "de"))


@dataclass(frozen=True, slots=True)
class Quantization:
    """The quantization of a tensor by the program: a value is `scale * (q - zero_point)`.

    lowest, highest: limits of q.
    """

    scale: float
    zero_point: int
    lowest: int
    highest: int

    def quantized(self, values: NDArray[Any], element: int) -> NDArray[Any]:
        """Returns integers of `element` bytes, as ExecuTorch's kernel computes them in float32."""
        steps = np.rint(np.float32(1) / np.float32(self.scale) * values.astype(np.float32))
        return np.clip(steps + self.zero_point, self.lowest, self.highest).astype(f"int{8 * element}")

    def dequantized(self, values: NDArray[Any]) -> NDArray[np.float32]:
        return (values.astype(np.int64) - self.zero_point).astype(np.float32) * np.float32(self.scale)

    def __str__(self) -> str:
        return f"scale {self.scale:.6g}, zero point {self.zero_point}"


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a delegate, as the program has it.

    name: the keys of the program's input or output that it is; "" if the program has none for it.
    A .pte has no names of parameters that are given by position.
    position: its place among the program's inputs, or among its outputs; None if it is neither.
    shape: its shape; () if it is no tensor.
    order: its axes in memory, the innermost last.
    quantization: how the program makes it, or reads it; None if it does neither by one scale.
    """

    name: str = ""
    position: int | None = None
    shape: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    quantization: Quantization | None = None

    def to_memory(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values with their axes as they lie in memory; as they are if they have another shape."""
        return np.ascontiguousarray(values.transpose(self.order)) if values.shape == self.shape != () else values

    def from_memory(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values in the program's shape; as they are if they have another number of elements."""
        if not self.shape or values.size != prod(self.shape):
            return values
        return values.reshape([self.shape[d] for d in self.order]).transpose(np.argsort(self.order))


@dataclass(frozen=True, slots=True)
class EmbeddedDelegate:
    """An Ethos-U delegate of a program.

    name: `method/index`, such as "forward/0".
    payload: the bytes that the backend receives at run time.
    ports: its inputs, then its outputs.
    outside: operators of the program outside all delegates.
    """

    name: str
    payload: bytes
    ports: tuple[Port, ...]
    outside: tuple[str, ...]


def delegates(buffer: bytes) -> list[EmbeddedDelegate]:
    """Returns the delegates of the Ethos-U backend, in their order.

    Raises InputError.
    """
    with input_errors("no .pte file that ExecuTorch reads"):
        program, segments = read_program(buffer)
        found = [d for plan in program.execution_plan or () for d in _of_method(plan, program, segments)]
    if not program.execution_plan:
        raise InputError("no .pte file that ExecuTorch reads: it has no execution plan")
    return found


def _of_method(plan: Any, program: Any, segments: bytes) -> list[EmbeddedDelegate]:
    """Returns the delegates of one method (`ExecutionPlan`), in their order."""
    calls = [i.instr_args for chain in plan.chains for i in chain.instructions]
    kernels = [c for c in calls if _is_a(c, "KernelCall")]
    outside = tuple(plan.operators[c.op_index].name for c in kernels)
    called = [(plan.delegates[c.delegate_index], c) for c in calls if _is_a(c, "DelegateCall")]
    ours = [(d, c) for d, c in called if d.id == _BACKEND]
    known = _Known(plan, kernels)
    return [
        EmbeddedDelegate(
            f"{plan.name}/{k}", _payload(d.processed, program, segments), tuple(map(known.port, c.args)), outside
        )
        for k, (d, c) in enumerate(ours)
    ]


def _is_a(value: object, name: str) -> bool:
    """Whether a value is of the class of that name in executorch.exir.schema, which is not imported here."""
    return type(value).__name__ == name


def _payload(processed: Any, program: Any, segments: bytes) -> bytes:
    """Returns the bytes that a `BackendDelegateDataReference` stands for."""
    if processed.location.name == "INLINE":
        return bytes(program.backend_delegate_data[processed.index].data)
    segment = program.segments[processed.index]
    return segment_at(segments, segment.offset, segment.size)


class _Known:
    """Names and quantizations of a method's tensors, by the numbers of their values."""

    def __init__(self, plan: Any, calls: Sequence[Any]) -> None:
        self._plan = plan
        types = plan.container_meta_type
        self._positions = {v: k for values in (plan.inputs, plan.outputs) for k, v in enumerate(values)}
        self._names = {
            **_names(plan.inputs, types.encoded_inp_str),
            **_names(plan.outputs, types.encoded_out_str),
        }
        self._outside: dict[int, tuple[int, Quantization]] = {}
        for c in calls:
            name = plan.operators[c.op_index].name
            if name in _QUANTIZE:
                self._outside[c.args[-1]] = c.args[0], self._quantization(c)
            elif name in _DEQUANTIZE:
                known = self._outside.get(c.args[0])
                if known is None or known[0] not in plan.outputs:
                    self._outside[c.args[0]] = c.args[-1], self._quantization(c)

    def _quantization(self, call: Any) -> Quantization:
        scale, *integers = (self._plan.values[i].val for i in call.args[1:5])
        return Quantization(float(scale.double_val), *(int(v.int_val) for v in integers))

    def port(self, value: int) -> Port:
        outer, quantization = self._outside.get(value, (value, None))
        return Port(self._names.get(outer, ""), self._positions.get(outer), *_layout(self._plan, value), quantization)


def _names(values: Sequence[int], spec: str) -> dict[int, str]:
    """Returns {value: its keys in PyTorch's description of a tree, with dots between}, if they are its own."""
    try:
        found = list(_leaves(json.loads(spec)[1]))
    except (LookupError, TypeError, ValueError, RecursionError):
        return {}
    counts = Counter(found)
    return {v: name for v, name in zip(values, found) if name and counts[name] == 1}


def _leaves(tree: Any, path: str = "") -> Iterator[str]:
    if tree["type"] is None:
        yield path
        return
    keys = json.loads(tree["context"]) if str(tree["type"]).endswith("dict") else []
    for k, part in enumerate(tree["children_spec"]):
        yield from _leaves(part, ".".join(filter(None, (path, *map(str, keys[k : k + 1])))))


def _layout(plan: Any, value: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns (shape, axes in memory) of a tensor, ((), ()) of anything else."""
    tensor = plan.values[value].val
    return (tuple(tensor.sizes), tuple(tensor.dim_order)) if _is_a(tensor, "Tensor") else ((), ())
