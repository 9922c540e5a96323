"""A target as prices see it: its accelerator configuration with the memories of its flags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from cost_models.calibration import Calibration, calibration
from eqsat.target import Family, Target
from eqsat.target.configuration import sections_of
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
    """A target as prices see it.

    activations  : the memory of inner tensors
    outer        : the memory of the graph's inputs and outputs
    constants    : the memory of constants
    planes, filled_taps, filled_inputs, single_tap, sparse_weights, per_command, repeated: see `Calibration`
    """

    family: Family
    core: Core
    activations: Memory
    outer: Memory
    constants: Memory
    planes: float = 1
    filled_taps: int = 4
    filled_inputs: int = 0
    single_tap: float = 1
    sparse_weights: float = 0.5
    per_command: float = 0.0
    repeated: float = 1.0

    @property
    def is_all_sram(self) -> bool:
        """Whether constants and all tensors are in SRAM."""
        return self.activations.in_sram and self.outer.in_sram and self.constants.in_sram


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
def machine_of(target: Target) -> Machine:
    """Returns the machine of a target by the figures of Vela.

    The memories are those of the .ini file that the target's flags name.
    Raises TargetError for a configuration that is not in the file.
    """
    system, mode = sections_of(target)

    def memory(area: str) -> Memory:
        name = system[f"{mode[area].lower()}_port"].lower()
        ports, latency, burst = (
            int(system.get(f"{name}_{k}", "1")) for k in ("ports_used", "read_latency", "burst_length")
        )
        bandwidth = target.family.port * float(system[f"{name}_clock_scale"]) * ports
        channel = float("inf")
        if target.family.bounded_channels:
            # ChannelBW (ethos_u85_performance.cpp): four fifths of the outstanding reads,
            # at four fifths of their bandwidth
            channel = burst * int(system.get(f"{name}_max_reads", "1")) * ports * 0.64 / max(1, latency)
        return Memory(
            bandwidth,
            latency,
            burst,
            int(system.get(f"{name}_write_latency", "0")),
            min(channel, bandwidth),
            name == "sram",
        )

    area = "cache_mem_area" if "cache_mem_area" in mode else "arena_mem_area"
    return Machine(target.family, target.core, memory(area), memory("arena_mem_area"), memory("const_mem_area"))


@lru_cache
def hardware_of(target: Target, measured: Calibration | None = None) -> Machine:
    """Returns the machine of a target as it was measured."""
    machine, core, measured = machine_of(target), target.core, measured or calibration(target)
    slowest = 1 / measured.outputs
    rates = {name: max(slowest, getattr(core, name)) for name in ("byte", "add", "mul", "wide", "product", "table")}

    def as_measured(memory: Memory) -> Memory:
        return replace(memory, burst=min(memory.burst, measured.sram_burst if memory.in_sram else measured.least_burst))

    return replace(
        machine,
        core=replace(core, pooling=min(core.pooling, measured.pooling), **rates),
        activations=as_measured(machine.activations),
        outer=as_measured(machine.outer),
        constants=as_measured(machine.constants),
        planes=measured.planes,
        filled_taps=measured.filled_taps,
        filled_inputs=measured.filled_inputs,
        single_tap=measured.single_tap,
        sparse_weights=measured.sparse_weights,
        repeated=measured.repeated,
        per_command=0.0 if machine.is_all_sram else measured.per_command,
    )
