"""The known causes of errors of Vela's estimate, with the lines of its sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.traps.hunt import Finding

#: Files of the sources of Vela.
_U55 = "architecture/ethosu55/ethos_u55_performance.cpp"
_U85 = "architecture/ethosu85/ethos_u85_performance.cpp"


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of findings.

    title: what is wrong, in a line.
    source: the lines of Vela.
    explains: tells whether it is the cause of a finding.
    corrected: whether the corrected total is free of it.
    """

    title: str
    source: str
    explains: Callable[[Finding], bool]
    corrected: bool = False


def _is_u85(f: Finding) -> bool:
    return f.target.startswith("ethos-u85")


def _is_transposition(f: Finding) -> bool:
    return f.graph.startswith("transpose") or f.graph == "sum over columns"


#: All known causes; the first that explains a finding is its cause.
CAUSES: tuple[Cause, ...] = (
    Cause(
        "an operand that broadcasts is charged one read for each element of the result",
        f"{_U55}, MeasureElementAccess: access.ifmRead[1] = access.ifmRead[0]",
        lambda f: (
            not _is_u85(f)
            and f.graph.startswith(("product", "maximum with"))
            and f.graph.endswith(("channel", "row", "plane"))
            and f.before.corrected < f.before.vela
        ),
        corrected=True,
    ),
    Cause(
        "operators next to each other that share one copy of their weights in SRAM are each charged the whole copy",
        "compiler/network_performance.cpp: fullWeightTransferCycles of each operator of CoalesceWeightBufferTensors",
        lambda f: f.graph == "four products of one matrix" and f.before.corrected < f.before.vela,
        corrected=True,
    ),
    Cause(
        "of a scalar of 16 bits or more as the first operand, the other one is not charged",
        f"{_U55}, MeasureElementAccess: else if behind IFM1 is a non 8-bit scalar",
        lambda f: not _is_u85(f) and f.change == "operands in the other order",
    ),
    Cause(
        "what has no activation is priced as if it had a TABLE (5.1)",
        f"{_U55}, EstimateAOCyclesPerElement: activationPerfIndex = 0",
        lambda f: (
            f.vela.startswith("5.1")
            and not _is_u85(f)
            and (f.change == "CLAMP to all values, at the end" or not f.change and f.before.vela > f.before.price)
            and not _is_transposition(f)
            and "dilated" not in f.graph
            and f.graph != "matmul"
        ),
    ),
    Cause(
        "elements of INT16 and INT32 are charged as if they were bytes (5.1)",
        f"{_U55}, ElementTransferToBytes: EstimateMemoryTransfer is given elements",
        lambda f: (
            f.vela.startswith("5.1")
            and not _is_u85(f)
            and any(dtype in f.graph for dtype in ("INT16", "INT32"))
            and f.before.vela < f.before.price
        ),
    ),
    Cause(
        "a TRANSPOSE is one pass over memory, its commands are many",
        f"{_U55}, MeasureCycleCost: EthosU55NpuOp::Compound",
        lambda f: not _is_u85(f) and _is_transposition(f),
    ),
    Cause(
        "a MATMUL is a product and a sum per column, and its commands others",
        f"{_U55}, EstimateMatMulCycles",
        lambda f: not _is_u85(f) and f.graph == "matmul",
    ),
    Cause(
        "each piece of a dilated convolution is priced as if it gave the whole image",
        "compiler/scheduler.cpp, InitPerfQuery: query.ofm has SliceShape() and no steps",
        lambda f: "dilated" in f.graph,
    ),
    Cause(
        "what is cut by channels, for its weights, is priced as one; each of its commands reads the input",
        "compiler/network_performance.cpp, EstimateFullOpPerformance: InitPerfQuery of the whole depth",
        lambda f: f.graph == "convolution 1x1" and not f.change and f.before.commands > 1,
    ),
    Cause(
        "a RESIZE takes the NPU no cycle (5.1)",
        f"{_U85}, MeasureCycleCost: TODO: Implement for Resize",
        lambda f: _is_u85(f) and f.graph == "resize twice" and f.vela.startswith("5.1"),
    ),
    Cause(
        "a GATHER takes the NPU no cycle, only its bytes, in bursts of single elements, count",
        f"{_U85}, MeasureElementAccess: OpType::Gather; ElementTransferToBytes without a configuration",
        lambda f: _is_u85(f) and f.graph.startswith("gather"),
    ),
    Cause(
        "bytes out of DRAM are charged by the block of who reads them, which a pooling has longer: a copy into SRAM pays",
        f"{_U55}, EstimateMemoryTransfer: burstLen",
        lambda f: f.target.startswith("ethos-u65") and bool(f.change),
    ),
)


def cause_of(finding: Finding) -> Cause | None:
    """Returns the cause of a finding, None if it is not known yet."""
    return next((c for c in CAUSES if c.explains(finding)), None)
