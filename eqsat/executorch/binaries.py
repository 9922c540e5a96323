"""Compiled models in files, read and run in a separate process with limits of time and memory.

A damaged file may need any amount of either, and Vela's decoder of weights ends its process on failure.
The functions whose names begin with `in_worker` run in that process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.device.binary import Binary, read_binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.run import run
from eqsat.device.text import disassemble
from eqsat.executorch.pte import (
    EmbeddedDelegate,
    Port,
    Quantization,
    TestCase,
    delegates,
    is_bundled,
    read_bundle,
    read_external_data,
)
from eqsat.ground.files import InputError
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tosa.reference import pack, unpack

#: Limits of reading and running a file: wall-clock seconds, and MiB of memory.
LIMITS = Limits(600.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a run: integers, as the binary has them, and how the program makes or reads it, if that is known."""

    data: NDArray[Any]
    quantization: Quantization | None = None

    def __str__(self) -> str:
        how = f" ({self.quantization})" if self.quantization else ""
        return f"{self.data.dtype}{list(self.data.shape)}{how}"

    def distance(self, expected: NDArray[Any]) -> tuple[float, str]:
        """Returns the largest distance from a tensor that was expected, with its unit; infinity for another size.

        Floats are compared in steps of the scale, if it is known.
        """
        is_float = expected.dtype.kind == "f"
        mine = self.real if is_float else self.data
        if mine.size != expected.size:
            return math.inf, ""
        apart = np.abs(mine.reshape(expected.shape).astype(np.float64) - expected.astype(np.float64))
        apart = np.nan_to_num(apart, nan=math.inf).max(initial=0.0)
        return (
            (apart / self.quantization.scale, " steps of its scale") if is_float and self.quantization else (apart, "")
        )

    @property
    def real(self) -> NDArray[Any]:
        """What the program reads: floats if it dequantizes the tensor."""
        return self.data if self.quantization is None else self.quantization.dequantize(self.data)


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of one sample: inputs and outputs by name, and the operators outside the delegate.

    expected: the outputs that a bundled program's test case expects, by name, as far as the delegate makes them.
    """

    inputs: dict[str, Value]
    outputs: dict[str, Value]
    outside: list[str]
    expected: dict[str, NDArray[Any]] = field(default_factory=dict)


def disassemble_model(
    data: bytes,
    via: Worker | Pool,
    registers: bool = False,
    delegate: str = "",
    external: Mapping[str, bytes] | None = None,
) -> tuple[list[str], list[str]]:
    """Returns (lines, operators outside the delegate) of a compiled model, as `read` takes it. Raises InputError."""
    answer = _answer(in_worker_disassemble, data, registers, delegate, external, via=via, limits=LIMITS)
    return answer["lines"], answer["outside"]


def run_model(
    data: bytes,
    inputs: Mapping[str, NDArray[Any]] | Sequence[NDArray[Any]] | int | None,
    via: Worker | Pool,
    limits: Limits = LIMITS,
    delegate: str = "",
    external: Mapping[str, bytes] | None = None,
) -> Ran:
    """Runs one sample of a compiled model, as `read` takes it. Raises InputError.

    inputs: by name or in the binary's order, the seed of random ones, or None for a bundled program's first test case.
    Floats are quantized as the program does; random elements have any value of their integer type.
    """
    if isinstance(inputs, int) or inputs is None:
        given: tuple[Any, ...] = None, inputs
    else:
        by_name = inputs if isinstance(inputs, Mapping) else {str(k): x for k, x in enumerate(inputs)}
        given = list(by_name), pack(by_name.values())
    answer = _answer(in_worker_run, data, *given, delegate, external, via=via, limits=limits)
    taken, made = (
        {name: Value(x, q and Quantization(*q)) for (name, q), x in zip(ports, unpack(xs))}
        for ports, xs in answer["sides"]
    )
    names, tensors = answer["expected"]
    return Ran(taken, made, answer["outside"], dict(zip(names, unpack(tensors))))


def _answer(function: Callable[..., Any], *args: Any, via: Worker | Pool, limits: Limits) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = via.call(function, *args, limits=limits)
    except WorkerError as e:
        raise InputError(f"{e}: the file is damaged, or takes more than it may") from e
    if "error" in answer:
        raise InputError(answer["error"])
    return answer


def in_worker_disassemble(
    data: bytes, registers: bool, delegate: str, external: Mapping[str, bytes] | None
) -> dict[str, Any]:
    try:
        found = read(data, delegate, external)
        return {"lines": list(disassemble(found.binary, registers)), "outside": found.outside}
    except (InputError, DeviceError) as e:
        return {"error": str(e)}


def in_worker_run(
    data: bytes, names: list[str] | None, given: Any, delegate: str, external: Mapping[str, bytes] | None
) -> dict[str, Any]:
    try:
        found = read(data, delegate, external)
        case = found.case
        if names is None and given is None:
            inputs = _integers(found, _inputs_of(found))
        elif names is None:
            rng = np.random.default_rng(given)
            drawn = [(rng.integers(0, 256, (*t.shape, t.element), np.uint8), t) for t in found.binary.inputs]
            inputs = [x.view(f"<i{t.element}").reshape(t.shape) for x, t in drawn]
        else:
            inputs = _integers(found, dict(zip(names, unpack(given), strict=True)))
        outputs = run(found.binary, inputs)
        sides = [
            (
                [(p.name, p.quantization and astuple(p.quantization)) for p in ports],
                pack([p.from_memory(x) for p, x in zip(ports, xs)]),
            )
            for ports, xs in ((found.inputs, inputs), (found.outputs, outputs))
        ]
        wanted = case.outputs if case and given is None else {}
        expected = {p.name: wanted[p.position] for p in found.outputs if p.position in wanted}
        return {"sides": sides, "outside": found.outside, "expected": (list(expected), pack(expected.values()))}
    except (InputError, DeviceError) as e:
        return {"error": str(e)}


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A compiled model.

    inputs, outputs: what the program around it knows of them; each has a name.
    outside: operators of that program outside the delegate.
    case: the first test case of a bundled program for the delegate's method.
    """

    binary: Binary
    inputs: list[Port]
    outputs: list[Port]
    outside: list[str]
    case: TestCase | None = None


def read(data: bytes, delegate: str = "", external: Mapping[str, bytes] | None = None) -> CompiledModel:
    """Returns a compiled model.

    data: Vela's raw output, a delegate's payload, a .pte, or a bundled program.
    delegate: the name of a delegate in a .pte, such as "forward/1"; "" if there is only one.
    external: {name: content} of the .ptd files with what the delegate keeps outside.
    Inputs and outputs of a delegate in a .pte have their shapes in the program.
    Raises InputError, DeviceError.
    """
    data, cases = read_bundle(data) if is_bundled(data) else (data, [])
    blocks = {k: v for name, file in (external or {}).items() for k, v in read_external_data(file, name).items()}
    if data[4:6] != b"ET":
        if delegate:
            raise InputError(f"there is no delegate {delegate!r}: only a .pte has delegates by name")
        return _name_tensors(read_binary(data, blocks))
    embedded = _choose(delegates(data), delegate)
    method, _, _ = embedded.name.partition("/")
    case = next((c for c in cases if c.method == method), None)
    return replace(_name_tensors(read_binary(embedded.payload, blocks), embedded.ports, embedded.outside), case=case)


def _choose(found: Sequence[EmbeddedDelegate], name: str) -> EmbeddedDelegate:
    """Returns the delegate of that name, or the only one. Raises InputError."""
    if not found:
        raise InputError("a program without an Ethos-U delegate")
    names = ", ".join(d.name for d in found)
    if not name and len(found) > 1:
        raise InputError(
            f"a program with {len(found)} Ethos-U delegates ({names}): choose one with --delegate; "
            "they are not run together, as eqsat does not run the operators between them"
        )
    chosen = next((d for d in found if name in ("", d.name)), None)
    if chosen is None:
        raise InputError(f"there is no delegate {name!r} in the program; it has {names}")
    return chosen


def _name_tensors(binary: Binary, ports: Sequence[Port] = (), outside: Sequence[str] = ()) -> CompiledModel:
    """Returns a model with what its program knows of the tensors; those without a name are x0 or y0, and so on."""
    count, tensors = len(binary.inputs), (*binary.inputs, *binary.outputs)
    plain = [f"x{k}" for k in range(count)] + [f"y{k}" for k in range(len(binary.outputs))]
    if len(ports) != len(tensors):
        ports = [Port(shape=t.shape, order=tuple(range(len(t.shape)))) for t in tensors]
    names = [p.name or name for p, name in zip(ports, plain)]
    if len(set(names)) < len(names):
        names = plain
    named = [replace(p, name=name) for p, name in zip(ports, names)]
    shaped = [
        replace(t, shape=tuple(p.shape[d] for d in p.order)) if math.prod(p.shape) == math.prod(t.shape) else t
        for t, p in zip(tensors, ports)
    ]
    binary = replace(binary, inputs=tuple(shaped[:count]), outputs=tuple(shaped[count:]))
    return CompiledModel(binary, named[:count], named[count:], list(dict.fromkeys(outside)))


def _inputs_of(model: CompiledModel) -> dict[str, NDArray[Any]]:
    """Returns the inputs of a model's test case by name. Raises InputError if it has none for the delegate."""
    if model.case is None:
        raise InputError("no test case: give --inputs FILE.npz or --random SEED")
    absent = [p.name for p in model.inputs if p.position not in model.case.inputs]
    if absent:
        raise InputError(f"{', '.join(absent)}: no input of the program, so that no test case has it: give --inputs")
    return {p.name: model.case.inputs[p.position] for p in model.inputs if p.position is not None}


def _integers(model: CompiledModel, given: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Returns the inputs in the binary's order, floats quantized; by name if one of them has an input's name."""
    names, tensors = [p.name for p in model.inputs], model.binary.inputs
    is_named = not set(names).isdisjoint(given)
    if len(given) != len(names) or is_named and set(names) != set(given):
        wanted = (
            f"{p.name} int{8 * t.element}{list(t.shape)}" + (f" ({p.quantization})" if p.quantization else "")
            for p, t in zip(model.inputs, tensors)
        )
        raise InputError(f"the inputs are {', '.join(wanted)}; given are {', '.join(given) or 'none'}")
    arrays = [given[n] for n in names] if is_named else list(given.values())
    out = []
    for x, p, t in zip(arrays, model.inputs, tensors):
        is_float, q = x.dtype.kind == "f", p.quantization
        if is_float and q is None:
            raise InputError(
                f"{p.name} is given as {x.dtype}, and no scale of it is known: give it as int{8 * t.element}"
            )
        out.append(p.to_memory(q.quantize(x, t.element) if is_float and q else x))
    return out
