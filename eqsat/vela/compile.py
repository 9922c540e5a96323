"""Vela's estimate of a whole graph, through a worker process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from eqsat.ground.process import Limits
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.vela.regor import RawOutput, vela
from eqsat.vela.roofline import Rates
from eqsat.vela.table import InSram, Row

#: {Vela's name of an operator: the kind in tables and reports}; all others are elementwise.
KINDS = {
    "Conv2D": "convolution",
    "DepthwiseConv2D": "convolution",
    "TransposeConv2D": "convolution",
    "FullyConnected": "convolution",
    "MatMul": "matmul",
    "Transpose": "transpose",
    "MemoryCopy": "memory copy",
    "Rescale": "rescale",
    "MaxPool": "pooling",
    "AvgPool": "pooling",
    "ReduceSum": "reduce",
    "ReduceMax": "reduce",
    "ReduceMin": "reduce",
}


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a compiled graph takes.

    sram    : SRAM in use at once
    commands: the command stream, which stays in flash
    weights : encoded weights, which stay in flash
    payload : commands and weights in a .pte
    memory  : {memory: bytes in use at once ("peak"), "read" and "written"}
    """

    sram: int
    commands: int
    weights: int
    payload: int
    memory: dict[str, dict[str, int]]

    @staticmethod
    def together(footprints: Iterable[Footprint]) -> Footprint:
        """Returns the footprint of graphs that run one after the other: the largest peaks, and sums of all else."""
        every = list(footprints)
        memory: dict[str, dict[str, int]] = {}
        for name, used in (item for f in every for item in f.memory.items()):
            total = memory.setdefault(name, {"peak": 0, "read": 0, "written": 0})
            total["peak"] = max(total["peak"], used.get("peak", 0))
            for what in ("read", "written"):
                total[what] += used.get(what, 0)
        return Footprint(
            max((f.sram for f in every), default=0),
            sum(f.commands for f in every),
            sum(f.weights for f in every),
            sum(f.payload for f in every),
            memory,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Vela's estimate of a whole graph.

    cycles   : in all
    rows     : Vela's table by operator
    memory   : {memory: bytes in use at once ("peak"), "read" and "written"}
    rates    : what the target does in a cycle at most
    raw      : Vela's raw output, the binary itself
    tensors  : the allocation of SRAM
    dedicated: bytes of SRAM that the memory mode gives to the NPU alone (Dedicated_Sram), else 0
    """

    cycles: int
    rows: tuple[Row, ...] = field(repr=False)
    memory: dict[str, dict[str, int]] = field(repr=False)
    rates: Rates
    raw: RawOutput = field(repr=False)
    tensors: tuple[InSram, ...] = field(default=(), repr=False)
    dedicated: int = 0

    @classmethod
    def read(cls, answer: dict[str, Any]) -> Self:
        """Returns the estimate from its fields in the form in which a worker sends them."""
        read = {
            "rows": tuple(map(Row.read, answer["rows"])),
            "rates": Rates(*answer["rates"]),
            "tensors": tuple(InSram(*t) for t in answer["tensors"]),
        }
        return cls(**(answer | read))

    @property
    def stream(self) -> bytes:
        """The command stream with the driver's header."""
        return self.raw["stream"]

    @property
    def operators(self) -> list[Row]:
        """Rows of the operators that Vela runs, in order, without those that are fused into the one before."""
        before = [None, *(r.name for r in self.rows)]
        return [r for b, r in zip(before, self.rows) if b != r.name or r.cycles]

    def read_by(self, tensor: InSram) -> Row | None:
        """Returns the row of the operator whose weights a buffer holds ("WB_single_2112_op2"), None for another."""
        step = self.step_of(tensor)
        return None if step is None else self.operators[step]

    def step_of(self, tensor: InSram) -> int | None:
        """Returns the position of that operator among `operators`, None if there is none."""
        number = re.fullmatch(r"WB_\w+_op(\d+)", tensor.name)
        return int(number[1]) if number and int(number[1]) < len(self.operators) else None

    @property
    def sram_peak(self) -> int:
        """Bytes of SRAM in use at once, at most; 0 where the memory mode uses none."""
        return self.memory.get("Sram", {}).get("peak", 0)

    @property
    def footprint(self) -> Footprint:
        """The footprint, without memories that are not used.

        ExecuTorch pads commands and weights to 16 bytes each.
        Empty weights count as one byte, as which numpy saves them in Vela's raw output.
        """
        commands, weights = len(self.stream), len(self.raw["read_only"])
        payload = sum(-(-max(1, n) // 16) * 16 for n in (commands, weights))
        return Footprint(
            self.sram_peak, commands, weights, payload, {k: m for k, m in self.memory.items() if any(m.values())}
        )

    @property
    def by_kind(self) -> dict[str, int]:
        """{kind of operator: cycles}, by `KINDS`."""
        return by_kind(self.rows)


def by_kind(rows: Iterable[Row]) -> dict[str, int]:
    """Returns {kind of operator: cycles of its rows}, by `KINDS`."""
    out: dict[str, int] = {}
    for r in rows:
        kind = KINDS.get(r.operator, "elementwise")
        out[kind] = out.get(kind, 0) + r.cycles
    return dict(sorted(out.items()))


def compile_tosa(buffer: bytes, target: Target, via: Pool | Worker, timeout: float = 300.0) -> Estimate:
    """Compiles a flatbuffer for `target` in at most `timeout` seconds.

    Raises WorkerError with Vela's reason, `refused` if Vela refused the graph or its binary lacks outputs.
    """
    return Estimate.read(via.call(vela, buffer, list(target.flags), limits=Limits(timeout)))
