"""Compiled models in files, read and run in a separate process with limits of time and memory.

A damaged file may need any amount of either.
Vela's decoder of weights ends its process on failure.
The functions whose names begin with `in_worker` run in that process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.device.binary import Binary, read_binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.run import run
from eqsat.device.text import disassemble
from eqsat.ground.files import InputError
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tosa.model import packed, unpacked

#: Limits of reading and running a file: wall-clock seconds, and MiB of memory.
LIMITS = Limits(600.0, 4096.0)


def disassembled(data: bytes, via: Worker | Pool, registers: bool = False) -> tuple[list[str], list[str]]:
    """Returns (lines, operators outside the delegate) of a compiled model.

    data: the model in any form that `read` takes.

    Raises DeviceError.
    """
    answer = _answer(in_worker_disassemble, data, registers, via=via, limits=LIMITS)
    return answer["lines"], answer["outside"]


def ran(
    data: bytes, inputs: Sequence[NDArray[Any]], via: Worker | Pool, limits: Limits = LIMITS
) -> tuple[list[NDArray[Any]], list[str]]:
    """Returns (outputs, operators outside the delegate) of one sample.

    Raises DeviceError.
    """
    answer = _answer(in_worker_run, data, packed(inputs), via=via, limits=limits)
    return unpacked(answer["outputs"]), answer["outside"]


def ran_on_random(
    data: bytes, seed: int, via: Worker | Pool, limits: Limits = LIMITS
) -> tuple[list[NDArray[Any]], list[NDArray[Any]], list[str]]:
    """Returns (inputs, outputs, operators outside the delegate) for random inputs.

    Their elements have any value of their integer type.

    Raises DeviceError.
    """
    answer = _answer(in_worker_run_on_random, data, seed, via=via, limits=limits)
    return unpacked(answer["inputs"]), unpacked(answer["outputs"]), answer["outside"]


def _answer(function: Callable[..., Any], *args: Any, via: Worker | Pool, limits: Limits) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = via.call(function, *args, limits=limits)
    except WorkerError as e:
        raise DeviceError(f"{e}: the file is damaged, or takes more than it may") from e
    if "error" in answer:
        raise DeviceError(answer["error"])
    return answer


def in_worker_disassemble(data: bytes, registers: bool) -> dict[str, Any]:
    try:
        binary, outside = read(data)
        return {"lines": list(disassemble(binary, registers)), "outside": outside}
    except (InputError, DeviceError) as e:
        return {"error": str(e)}


def in_worker_run(data: bytes, inputs: bytes) -> dict[str, Any]:
    try:
        binary, outside = read(data)
        return {"outputs": packed(run(binary, unpacked(inputs))), "outside": outside}
    except (InputError, DeviceError) as e:
        return {"error": str(e)}


def in_worker_run_on_random(data: bytes, seed: int) -> dict[str, Any]:
    try:
        binary, outside = read(data)
        rng = np.random.default_rng(seed)
        inputs = [rng.integers(0, 256, (*t.shape, t.element), np.uint8).view(f"<i{t.element}") for t in binary.inputs]
        inputs = [x.reshape(t.shape) for x, t in zip(inputs, binary.inputs, strict=True)]
        return {"inputs": packed(inputs), "outputs": packed(run(binary, inputs)), "outside": outside}
    except (InputError, DeviceError) as e:
        return {"error": str(e)}


def read(data: bytes) -> tuple[Binary, list[str]]:
    """Returns (a compiled model, operators outside its delegate).

    data: Vela's raw output, a delegate's payload, or a .pte with one delegate.
    Inputs and outputs of a delegate in a .pte have their shapes in the program.
    Raises InputError, DeviceError.
    """
    if data[4:6] != b"ET":
        return read_binary(data), []
    from eqsat.executorch.pte import delegates

    found = delegates(data)
    if len(found) != 1:
        raise InputError(f"a program with {len(found)} Ethos-U delegates; one is needed")
    return _in_shapes(read_binary(found[0].payload), found[0].shapes), list(dict.fromkeys(found[0].outside))


def _in_shapes(binary: Binary, shapes: Sequence[tuple[int, ...]]) -> Binary:
    """Returns the binary with these shapes of inputs and outputs, if they have equal sizes."""
    tensors = (*binary.inputs, *binary.outputs)
    if len(shapes) != len(tensors):
        return binary
    shaped = [replace(t, shape=s) if math.prod(s) == math.prod(t.shape) else t for t, s in zip(tensors, shapes)]
    inputs = len(binary.inputs)
    return replace(binary, inputs=tuple(shaped[:inputs]), outputs=tuple(shaped[inputs:]))
