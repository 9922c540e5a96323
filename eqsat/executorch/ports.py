"""Inputs and outputs of an Ethos-U delegate, with what the program around it knows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    shape: its shape; () if it is no tensor, or if its last axis is not innermost.
    quantization: how the program makes it, or reads it; None if it does neither by one scale.
    """

    name: str = ""
    shape: tuple[int, ...] = ()
    quantization: Quantization | None = None


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
