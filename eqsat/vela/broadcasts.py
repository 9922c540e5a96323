"""Corrected cycles of an elementwise operator with an operand that broadcasts.

Vela charges such an operand one read for each element of the result (U55 and U65, `Facts.broadcasts_by_element`), from
the memory in which it lies:
of a constant [1, 1, 1, C], which lies in flash, some 8 cycles each on U55. The hardware broadcasts and reads it once a
block (NPU_SET_IFM2_BROADCAST).

A row of Vela's table takes the larger of the NPU's cycles and of the cycles of each memory (EstimateFullOpPerformance
in network_performance.cpp). Those of a memory are the bytes read from it and written to it over its bandwidth
(MeasureAccessCycles); the bytes of an operand are the elements read, times what bursts waste (ElementTransferToBytes).
The corrected cycles are the same maximum, with the elements of each block in place of those of the result. All else in
a row is right already: the NPU's cycles have each operand's own shape (MinimumIfmCycles), and no other row depends on
how long memories take in this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, prod
from typing import NamedTuple

from eqsat.vela.bursts import burst

#: Vela's names of the elementwise operators that take two operands (s_ElementwiseMap in
#: ethos_u55_register_cs_generator.cpp).
_BINARY = frozenset({"Add", "Sub", "Mul", "Minimum", "Maximum", "SHL", "Asr"})
#: Channels of a brick.
_BRICK = 16

#: (n, h, w, c), in elements.
NHWC = tuple[int, int, int, int]
_Columns = Mapping[str, str]


def corrected(row: _Columns, details: _Columns, blocks: _Columns, bursts: Mapping[str, int]) -> int:
    """Cycles of a row of Vela's table "perf", with what "perf_debug" and "perf_debug_main" tell of the same operator;
    those of the row itself where no operand broadcasts. bursts: bytes of the longest burst, by the name of a memory."""
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
    """How a result is cut: into stripes, which are computed one after the other, and these into blocks."""

    stripe: NHWC
    block: NHWC

    def blocks(self, axis: int, size: int) -> int:
        """How many there are along an axis of so many elements."""
        stripe = min(size, self.stripe[axis] or size)
        whole, rest = divmod(size, stripe)
        return whole * ceil(stripe / self.block[axis]) + ceil(rest / self.block[axis])


def elements_read(shape: NHWC, result: NHWC, cut: Cut) -> int:
    """Elements of an operand that are read in all: along an axis on which it broadcasts, its one element for each
    block; else each element once."""
    return prod(cut.blocks(axis, out) if n == 1 < out else n for axis, (n, out) in enumerate(zip(shape, result)))


class _Tensor(NamedTuple):
    """What an operator reads or writes, the memory that it lies in, whether in bricks of 16 channels or in rows, and
    the bits of an element."""

    shape: NHWC
    memory: str
    bricks: bool
    bits: int

    @staticmethod
    def of(details: _Columns, name: str) -> _Tensor:
        """An operand ("ifm", "ifm2") or the result ("ofm"); of a part of a larger tensor that part."""
        part, bits = _shape(details, f"{name}_slice"), re.search(r"\d+", details[f"{name}_dtype"])
        return _Tensor(
            part if prod(part) else _shape(details, f"{name}_shape"),
            details[f"{name}_memory"],
            details[f"{name}_format"] == "NHCWB16",
            int(bits[0]) if bits else 8,
        )

    def stored(self, shape: NHWC) -> NHWC:
        """A shape with as many channels as are stored."""
        return (*shape[:3], ceil(shape[3] / _BRICK) * _BRICK if self.bricks else shape[3])

    def bytes(self, block: NHWC, longest: int) -> float:
        """Bytes that a memory moves for an element in blocks of this shape: a burst that is shorter than the longest
        takes as long."""
        length = burst(True, not self.bricks, self.bits, block[1:], self.shape[1:])
        return self.bits / 8 * longest / min(longest, length)


def _read_by_block(t: _Tensor, result: NHWC, cut: Cut, longest: int) -> float:
    """Bytes that a memory moves for an operand that broadcasts, of which a block has no more than the operand."""
    n, h, w, c = map(min, cut.block, t.shape)
    elements = elements_read(t.shape, result, cut) / t.shape[3] * t.stored(t.shape)[3]
    return elements * t.bytes((n, h, w, c), longest)


def _shape(columns: _Columns, name: str) -> NHWC:
    n, h, w, c = (int(columns.get(f"{name}_{axis}") or 0) for axis in "nhwc")
    return n, h, w, c
