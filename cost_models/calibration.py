"""What measurements say of an NPU where they contradict Vela's figures, or where Vela has none.

The measurements are cycles of one inference on Arm's functional models (FVP) of Corstone-300 and -320: networks, and
single operators with operands outside SRAM on U85-256. Source: github.com/Kwon-GiHwan/mps4_prototyping_board,
docs/paper/analysis/scaling.csv (commit 5e719e16), docs/paper/evidence/vela-matrix-20260824/vela_matrix.csv (commit
de272c81) and docs/paper/raw_data_report/amendments/h13/H13_RESULTS.md, section 6; figures only.
`python -m benchmarks.measured CELLS.csv FOLDER --fit` chooses the constants again, and does so without each network
and without each configuration.

All else in the price of a command is documented (`command_stream.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from eqsat.target import Target


class Constant(NamedTuple):
    """A constant, the range in which measurements leave it, and Vela's figure."""

    value: int | float
    low: int | float
    high: int | float
    vela: int | float

    @staticmethod
    def as_in_vela(value: int | float) -> Constant:
        return Constant(value, value, value, value)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The constants of a target.

    least_burst: bytes of a burst outside SRAM, below which it takes no less
    sram_burst: the same in SRAM, if the longest burst there is not less
    pooling: passes per byte of a pooled element
    planes: cycles of a pooling of depth 1, to those of one of eight channels
    filled_taps: elements to a multiple of which a depthwise kernel is filled up
    filled_inputs: channels to a multiple of which the input of a convolution is filled up (0: those of a block)
    single_tap: cycles of a 1x1 kernel, kernel first, to those of a kernel of four elements
    sparse_weights: cycles of weights of which two of four are zero, to those of others
    outputs: elements that the output path writes in a cycle, at most
    per_command: cycles that a command takes in addition to its work; none where all memory is SRAM
    repeated: the share of these that a pooling takes which differs from the command before in addresses alone
    """

    least_burst: int
    sram_burst: int
    pooling: int
    planes: float
    filled_taps: int
    filled_inputs: int
    single_tap: float
    sparse_weights: float
    outputs: int
    per_command: float
    repeated: float


#: A convolution 3x3 of 16x16x128 in DRAM on U85-256 takes 206,068 cycles: 799,999 by Vela, 196,608 by its MACs.
_LEAST_BURST = Constant(40, 32, 64, 128)
#: The thousands of commands of a TRANSPOSE on U55 and U65 are not measured anywhere: as dear as others, or free.
_REPEATED = Constant(1, 0, 1, 1)
#: Single bytes in rows of a TRANSPOSE, each a burst of its own, are not measured anywhere: as in Vela, or as a word of
#: an AXI port.
_SRAM_BURST = Constant(64, 8, 64, 64)
#: AVG_POOL of 25x5x196 on U85 takes 2,015 cycles, 7,746 in four passes.
_POOLING = Constant(1, 1, 4, 4)
#: TRANSPOSEs of U55 and U65 are poolings of depth 1, which are not measured anywhere: as long as any other of eight
#: channels, as the NPU computes these side by side, or down to an eighth.
_PLANES = Constant(1, 0.125, 1, 1)
_U55_AND_U65 = {
    "least_burst": _LEAST_BURST,
    "sram_burst": _SRAM_BURST,
    "repeated": _REPEATED,
    "pooling": _POOLING,
    "planes": _PLANES,
    "filled_taps": Constant(4, 2, 4, 4),
    "filled_inputs": Constant.as_in_vela(0),
    "single_tap": Constant.as_in_vela(1),
    "sparse_weights": Constant.as_in_vela(1),
    "outputs": Constant.as_in_vela(32),
}
_U85 = {
    "least_burst": _LEAST_BURST,
    "sram_burst": _SRAM_BURST,
    "repeated": _REPEATED,
    "pooling": _POOLING,
    "planes": _PLANES,
    # networks of depthwise convolutions of 3x3 take .64 to .81 of Vela's cycles for these; 9 of 12 elements
    "filled_taps": Constant(1, 1, 4, 4),
    # convolutions of 140 channels in blocks of 64
    "filled_inputs": Constant(16, 0, 16, 0),
    # thin 1x1 convolutions: Vela's scheduler counts two steps, its performance model four
    "single_tap": Constant(0.5, 0.5, 1, 1),
    # a kernel of 10x4 on one channel takes twice Vela's cycles on all five configurations
    "sparse_weights": Constant(1, 0.5, 1, 0.5),
    # 2048 MACs write no more than 1024, of which Vela says twice as many: a word of an AXI port
    "outputs": Constant(16, 16, 32, 32),
}
#: {family: {MACs of a core, at most: {field of `Calibration`: constant}}}.
#: Configurations of U85 above 256 MACs were measured at 1 GHz, the smaller ones at 500 MHz, as in Arm's evaluation kit.
_CONSTANTS: Mapping[str, Mapping[int, Mapping[str, Constant]]] = {
    "u55": {256: {**_U55_AND_U65, "per_command": Constant(300, 250, 500, 0)}},
    "u65": {512: {**_U55_AND_U65, "per_command": Constant(500, 300, 700, 0)}},
    "u85": {
        256: {**_U85, "per_command": Constant(0, 0, 150, 0)},
        2048: {**_U85, "per_command": Constant(700, 500, 900, 0)},
    },
}
#: Standard deviation of the logarithm of price over measurement, {family: {MACs at most: deviation}}: without each
#: network in turn, from `benchmarks/results/measured`.
_SPREAD: Mapping[str, Mapping[int, float]] = {
    "u55": {256: 0.04},
    "u65": {512: 0.07},
    "u85": {256: 0.13, 2048: 0.10},
}


#: The constants of a configuration that was not measured: Vela's.
_UNMEASURED: Mapping[str, Constant] = {
    name: Constant.as_in_vela(c.vela) for name, c in {**_U85, "per_command": Constant.as_in_vela(0)}.items()
}
#: Its spread, about that of Vela's total on U65 and U85.
_UNKNOWN_SPREAD = 0.25
_T = TypeVar("_T")


def _of(target: Target, by_macs: Mapping[str, Mapping[int, _T]], default: _T) -> _T:
    found = by_macs.get(target.family.name, {})
    return next((value for most, value in sorted(found.items()) if target.core.macs <= most), default)


def constants(target: Target) -> Mapping[str, Constant]:
    """Returns {field of `Calibration`: its constant} of a target, Vela's figures where nothing was measured."""
    return _of(target, _CONSTANTS, _UNMEASURED)


def calibration(target: Target) -> Calibration:
    """Returns the calibrated constants of a target."""
    return Calibration(**{name: c.value for name, c in constants(target).items()})  # type: ignore[arg-type]


def vela_constants(target: Target) -> Calibration:
    """Returns Vela's own figures in place of the calibrated ones."""
    return Calibration(**{name: c.vela for name, c in constants(target).items()})  # type: ignore[arg-type]


def extremes(target: Target) -> list[tuple[Calibration, Calibration]]:
    """Returns two calibrations for each constant that measurements leave in a range, with the ends of the range."""
    at = calibration(target)
    ranges = {name: c for name, c in constants(target).items() if c.low < c.high}

    def change(name: str, value: float) -> Calibration:
        return replace(at, **{name: value})  # type: ignore[arg-type]

    return [(change(name, c.low), change(name, c.high)) for name, c in ranges.items()]


def get_spread(target: Target) -> float:
    """Returns the standard deviation of the logarithm of the price over the measured cycles of a network."""
    return _of(target, _SPREAD, _UNKNOWN_SPREAD)
