"""Corrected cycles of an elementwise operator with an operand that broadcasts.

Vela charges such an operand one read for each element of the result.
It does so on U55 and U65 (MeasureElementAccess in ethos_u55_performance.cpp), from the memory of the operand.
A constant [1, 1, 1, C] lies in flash and costs some 8 cycles for each element on U55.
The hardware broadcasts and reads the operand once a block (NPU_SET_IFM2_BROADCAST).

A row of Vela's table takes the larger of the NPU's cycles and of the cycles of each memory.
(EstimateFullOpPerformance in network_performance.cpp.)
The cycles of a memory are the bytes read and written over its bandwidth (MeasureAccessCycles).
The bytes of an operand are the elements read, times the waste of bursts (ElementTransferToBytes).
The corrected cycles are this maximum with the elements of each block in place of those of the
result.

The rest of a row is right already.
The NPU's cycles have each operand's own shape (MinimumIfmCycles).
No other row depends on the memory cycles of this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, prod
from typing import NamedTuple

from eqsat.vela.bursts import burst
from eqsat.vela.table import Columns

#: Vela's names of the elementwise operators that take two operands.
#: (s_ElementwiseMap in ethos_u55_register_cs_generator.cpp.)
_BINARY = frozenset({"Add", "Sub", "Mul", "Minimum", "Maximum", "SHL", "Asr"})
#: Channels of a brick.
_BRICK = 16

#: A shape (n, h, w, c), in elements.
NHWC = tuple[int, int, int, int]


def corrected(row: Columns, details: Columns, blocks: Columns, bursts: Mapping[str, int]) -> int:
    """Returns the corrected cycles of a row of Vela's table "perf".

    If no operand broadcasts, they are the row's own.
    details, blocks: the rows of "perf_debug" and "perf_debug_main" for the same operator.
    bursts: {name of a memory: bytes of its longest burst}.
    """
    charged = int(row["op_cycles"])
    if row["operator"] not in _BINARY or not charged:
        return charged
    operands, result = [_Tensor.of(details, name) for name in ("ifm", "ifm2")], _Tensor.of(details, "ofm")
    broadcast = [any(n == 1 < out for n, out in zip(t.shape, result.shape)) for t in operands]
    if any(prod(t.shape) <= 1 for t in operands) or not any(broadcast):
        return charged
    cut = Cut(_shape(details, "ofm_stripe"), _shape(blocks, "ofm_block"))
    count, asked = operands[0].stored(result.shape), _shape(blocks, "ifm_block")
    by_vela = [prod(count) * t.bytes(asked, bursts[t.memory]) for t in operands]
    by_block = [
        min(old, _read_by_block(t, result.shape, cut, bursts[t.memory])) if is_broadcast else old
        for t, old, is_broadcast in zip(operands, by_vela, broadcast)
    ]
    cycles = [int(row["npu_cycles"])]
    for memory in bursts:
        here = [k for k, t in enumerate(operands) if t.memory == memory]
        kept = sum(by_block[k] for k in here) / sum(by_vela[k] for k in here) if here else 1.0
        read, written = (int(details.get(f"{memory}FeatureMap_{what}") or 0) for what in ("read", "write"))
        share = (kept * read + written) / max(1, read + written)
        cycles.append(int(share * int(row.get(f"{memory}_ac") or 0)))
    return min(charged, max(cycles))


class Cut(NamedTuple):
    """The stripes and blocks of a result.

    Stripes are computed one after the other, each block by block.
    """

    stripe: NHWC
    block: NHWC

    def blocks(self, axis: int, size: int) -> int:
        """Returns the number of blocks along an axis of `size` elements."""
        stripe = min(size, self.stripe[axis] or size)
        whole, rest = divmod(size, stripe)
        return whole * ceil(stripe / self.block[axis]) + ceil(rest / self.block[axis])


def elements_read(shape: NHWC, result: NHWC, cut: Cut) -> int:
    """Returns the elements of an operand that are read in all.

    Along an axis on which it broadcasts, its one element is read for each block.
    Along any other axis each element is read once.
    """
    return prod(cut.blocks(axis, out) if n == 1 < out else n for axis, (n, out) in enumerate(zip(shape, result)))


class _Tensor(NamedTuple):
    """A feature map that an operator reads or writes.

    shape : in elements
    memory: the name of the memory in which it lies
    bricks: whether it is in bricks of 16 channels, not in rows
    bits  : of an element
    """

    shape: NHWC
    memory: str
    bricks: bool
    bits: int

    @staticmethod
    def of(details: Columns, name: str) -> _Tensor:
        """Returns an operand ("ifm", "ifm2") or the result ("ofm").

        For a part of a larger tensor the shape is that of the part.
        """
        part, bits = _shape(details, f"{name}_slice"), re.search(r"\d+", details[f"{name}_dtype"])
        return _Tensor(
            part if prod(part) else _shape(details, f"{name}_shape"),
            details[f"{name}_memory"],
            details[f"{name}_format"] == "NHCWB16",
            int(bits[0]) if bits else 8,
        )

    def stored(self, shape: NHWC) -> NHWC:
        """Returns a shape with as many channels as are stored."""
        return (*shape[:3], ceil(shape[3] / _BRICK) * _BRICK if self.bricks else shape[3])

    def bytes(self, block: NHWC, longest: int) -> float:
        """Returns the bytes that a memory moves for an element in blocks of this shape.

        A burst that is shorter than `longest` bytes takes as long as that.
        """
        length = burst(True, not self.bricks, self.bits, block[1:], self.shape[1:])
        return self.bits / 8 * longest / min(longest, length)


def _read_by_block(t: _Tensor, result: NHWC, cut: Cut, longest: int) -> float:
    """Returns the bytes that a memory moves for an operand that broadcasts and is read once a block."""
    n, h, w, c = map(min, cut.block, t.shape)
    elements = elements_read(t.shape, result, cut) / t.shape[3] * t.stored(t.shape)[3]
    return elements * t.bytes((n, h, w, c), longest)


def _shape(columns: Columns, name: str) -> NHWC:
    n, h, w, c = (int(columns.get(f"{name}_{axis}") or 0) for axis in "nhwc")
    return n, h, w, c
