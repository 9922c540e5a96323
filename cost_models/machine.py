"""A target as prices see it: its accelerator configuration with the memories of its flags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from cost_models.calibration import Calibration, calibration
from eqsat.target import Family, Target
from eqsat.target.accelerators import sections_of
from eqsat.target.family import Core


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory, and the figures of its accesses.

    bandwidth    : bytes per cycle
    latency      : cycles of a read
    burst        : bytes of the longest burst
    write_latency: cycles of a write
    channel      : bytes per cycle of one kind of access by itself
    in_sram      : whether it is SRAM
    """

    bandwidth: float
    latency: int
    burst: int
    write_latency: int = 0
    channel: float = float("inf")
    in_sram: bool = True

    def reading(self, count: float) -> float:
        """Returns the cycles in which `count` bytes are read."""
        return count / self.bandwidth + self.latency

    def writing(self, count: float) -> float:
        """Returns the cycles in which `count` bytes are written."""
        return count / self.bandwidth + self.write_latency


@dataclass(frozen=True, slots=True)
class Machine:
    """A target as it was measured.

    activations: the memory of inner tensors
    outer      : the memory of the graph's inputs and outputs
    constants  : the memory of constants
    """

    family: Family
    core: Core
    activations: Memory
    outer: Memory
    constants: Memory
    measured: Calibration

    @property
    def per_command(self) -> float:
        """Cycles that a command takes in addition to its work; none where constants and all tensors are in SRAM."""
        is_all_sram = self.activations.in_sram and self.outer.in_sram and self.constants.in_sram
        return 0.0 if is_all_sram else self.measured.per_command


@dataclass(frozen=True, slots=True)
class Place:
    """Memories and formats of an operator's feature maps.

    read, write          : the memories that it reads from and writes to
    read_rows, write_rows: whether a feature map is in rows (NHWC) rather than in bricks of 16 channels
    """

    read: Memory
    write: Memory
    read_rows: bool = False
    write_rows: bool = False


@lru_cache
def hardware_of(target: Target, measured: Calibration | None = None) -> Machine:
    """Returns the machine of a target, with constants in place of the calibrated ones if they are given.

    The memories are those of the .ini file that the target's flags name.
    Raises TargetError for a configuration that is not in the file.
    """
    family, core, measured = target.family, target.core, measured or calibration(target)
    system, mode = sections_of(target)

    def memory(area: str) -> Memory:
        name = system[f"{mode[area].lower()}_port"].lower()
        ports, latency, longest = (
            int(system.get(f"{name}_{k}", "1")) for k in ("ports_used", "read_latency", "burst_length")
        )
        bandwidth = family.port * float(system[f"{name}_clock_scale"]) * ports
        channel = float("inf")
        if family.bounded_channels:
            # ChannelBW (ethos_u85_performance.cpp): four fifths of the outstanding reads,
            # at four fifths of their bandwidth
            channel = longest * int(system.get(f"{name}_max_reads", "1")) * ports * 0.64 / max(1, latency)
        burst = min(longest, measured.sram_burst if name == "sram" else measured.least_burst)
        write_latency = int(system.get(f"{name}_write_latency", "0"))
        return Memory(bandwidth, latency, burst, write_latency, min(channel, bandwidth), name == "sram")

    inner = "cache_mem_area" if "cache_mem_area" in mode else "arena_mem_area"
    activations, outer, constants = (memory(area) for area in (inner, "arena_mem_area", "const_mem_area"))
    slowest = 1 / measured.outputs
    rates = {name: max(slowest, getattr(core, name)) for name in ("byte", "add", "mul", "wide", "product", "table")}
    core = replace(core, pooling=min(core.pooling, measured.pooling), **rates)
    return Machine(family, core, activations, outer, constants, measured)
