"""The NPUs as Vela 5.1 sees them: accelerator configurations, memories.

The tables are those of its C++ compiler (regor): architecture/ethosu55/ethos_u55.cpp, ethosu65/ethos_u65.cpp, ethosu85/ethos_u85.cpp.
"""

from __future__ import annotations

import configparser
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cost_models.blocks import Block, Rams, Shape, Shram, Work, shared_memory_block, split_memory_block
from eqsat.target import Target


@dataclass(frozen=True, slots=True)
class Core:
    """One accelerator configuration. micro: blocks (h, w, c) of the output, by choice. Cycles per element of the output path:
    byte, add (INT8 sum), mul (INT8 product), wide (sum or product of INT32), product (to INT32), plain (without an activation behind
    it, U55 and U65). pooling: passes per byte of a pooled element."""

    macs: int
    micro: tuple[Shape, ...]
    byte: float
    add: float
    mul: float
    wide: float
    product: float
    plain: float
    rams: Shram | Rams
    cores: int = 1
    pooling: int = 4


_SMALL, _MIDDLE, _LARGE = Shram(16, 2), Shram(24, 4), Shram(48, 8)


def _rams(inputs: int, accumulators: int, units: tuple, pooling: tuple[int, ...], products: tuple[int, ...]) -> Rams:
    return Rams(inputs * 1024, accumulators * 1024, units, pooling, products)


_SQUARE, _FLAT = ((2, 2, 1), (1, 2, 2), (1, 1, 4)), ((1, 4, 1), (1, 2, 2), (1, 1, 4))
_DEEP, _DEEP_FLAT = ((2, 4, 1), (2, 2, 2), (1, 2, 4)), ((2, 4, 1), (1, 4, 2), (1, 2, 4))
_DEEPEST, _DEEPEST_FLAT = ((4, 4, 1), (2, 4, 2), (2, 2, 4)), ((4, 4, 1), (2, 4, 2), (1, 4, 4))
_TINY = ((1, 2, 1), (1, 1, 2), (1, 1, 2))
#: ethos_u55.cpp, ethos_u65.cpp, ethos_u85.cpp: accelerator configurations, their output and activation cycles, their memories.
CORES = {
    "ethos-u55-32": Core(32, ((1, 1, 4),), 2.0, 6.0, 3.0, 3.0, 3.0, 1.0, _SMALL, pooling=1),
    "ethos-u55-64": Core(64, ((1, 1, 8),), 1.0, 3.0, 1.5, 1.5, 1.5, 1.0, _SMALL),
    "ethos-u55-128": Core(128, ((1, 2, 8),), 0.5, 1.5, 0.75, 1.25, 0.75, 1.0, _MIDDLE),
    "ethos-u55-256": Core(256, ((2, 2, 8),), 0.25, 0.75, 0.375, 1.125, 0.5, 1.0, _LARGE),
    "ethos-u65-256": Core(256, ((2, 2, 8),), 0.25, 0.75, 0.375, 1.125, 0.5, 1.0, _LARGE),
    "ethos-u65-512": Core(256, ((2, 2, 8),), 0.125, 0.375, 0.1875, 0.5625, 0.25, 0.5, _LARGE, 2),
    "ethos-u85-128": Core(
        128, ((1, 2, 8), (1, 1, 16)), 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, _rams(8, 8, (_TINY, _TINY), (1,), (0,))
    ),
    "ethos-u85-256": Core(
        256,
        ((1, 2, 16), (1, 4, 8), (2, 2, 8)),
        0.25,
        0.25,
        0.25,
        0.5,
        0.25,
        0.25,
        _rams(16, 16, (_SQUARE, _FLAT, _SQUARE), (0,), (1, 2)),
    ),
    "ethos-u85-512": Core(
        512,
        ((2, 2, 16), (1, 4, 16)),
        0.125,
        0.125,
        0.125,
        0.25,
        0.25,
        0.125,
        _rams(16, 32, (_SQUARE, _FLAT), (0, 1), (0, 1)),
        2,
    ),
    "ethos-u85-1024": Core(
        1024,
        ((2, 2, 32), (1, 4, 32), (2, 4, 16)),
        0.0625,
        0.0625,
        0.0625,
        0.25,
        0.25,
        0.0625,
        _rams(16, 64, (_DEEP, _DEEP_FLAT, _DEEP), (2,), (0, 1, 2)),
        4,
    ),
    "ethos-u85-2048": Core(
        2048,
        ((2, 2, 64), (1, 4, 64), (4, 4, 16)),
        0.03125,
        0.03125,
        0.03125,
        0.125,
        0.125,
        0.03125,
        _rams(32, 128, (_DEEPEST, _DEEPEST_FLAT, _DEEPEST), (2,), (0, 1, 2)),
        4,
    ),
}
#: Bytes that an AXI port moves per cycle at a clock scale of one, by family.
_PORT = {"u55": 8.0, "u65": 16.0, "u85": 16.0}


@dataclass(frozen=True, slots=True)
class Memory:
    """bandwidth: bytes per cycle, `channel` of one kind of access by itself (U85); latencies: cycles; burst: bytes of the longest one."""

    bandwidth: float
    latency: int
    burst: int
    write_latency: int = 0
    channel: float = float("inf")


@dataclass(frozen=True, slots=True)
class Machine:
    """A target as the closed forms see it: where `activations`, the graph's inputs and outputs (`outer`) and `constants` live; tensors of
    more than `cache` bytes live where the graph's inputs do."""

    family: str
    core: Core
    activations: Memory
    outer: Memory
    constants: Memory
    cache: float = float("inf")

    def block(self, w: Work, table: bool = False) -> Block:
        if self.family == "u85":
            return split_memory_block(w, self.core.micro, self.core.rams, self.core.macs)
        return shared_memory_block(w, self.core.micro[0], self.family, self.core.rams, table)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator reads and writes its feature maps, and which of them are in rows (NHWC) rather than in bricks of 16 channels."""

    read: Memory
    write: Memory
    read_rows: bool = False
    write_rows: bool = False


@lru_cache
def machine(target: Target) -> Machine:
    """The machine of a target, memories from the .ini file that its flags name. Raises KeyError for a config that is not in it."""
    flags = dict(f.removeprefix("--").split("=", 1) for f in target.flags if "=" in f)
    ini = configparser.ConfigParser()
    ini.read(_ini(flags.get("config", "Arm/vela.ini")))
    system, mode = ini[f"System_Config.{flags['system-config']}"], dict(ini[f"Memory_Mode.{flags['memory-mode']}"])
    while "inherit" in mode:
        mode = {**ini[mode.pop("inherit")], **mode}

    def memory(area: str) -> Memory:
        name = system[f"{mode[area].lower()}_port"].lower()
        ports, latency, burst = (
            system.getint(f"{name}_{k}", 1) for k in ("ports_used", "read_latency", "burst_length")
        )
        bandwidth = _PORT[target.family] * system.getfloat(f"{name}_clock_scale") * ports
        # U85's ChannelBW: four fifths of the reads under way, at four fifths of what they could fetch
        channel = (
            burst * system.getint(f"{name}_max_reads", 1) * ports * 0.64 / max(1, latency)
            if target.family == "u85"
            else float("inf")
        )
        return Memory(bandwidth, latency, burst, system.getint(f"{name}_write_latency", 0), min(channel, bandwidth))

    area = "cache_mem_area" if "cache_mem_area" in mode else "arena_mem_area"
    return Machine(
        target.family,
        CORES[target.accelerator],
        memory(area),
        memory("arena_mem_area"),
        memory("const_mem_area"),
        float(mode.get("arena_cache_size", "inf")),
    )


def _ini(name: str) -> Path:
    if Path(name).is_file():
        return Path(name)
    spec = importlib.util.find_spec("ethosu")
    places = [
        Path(p) / sub / "config_files" / name for p in spec.submodule_search_locations for sub in ("", "regor", "vela")
    ]
    return next(p for p in places if p.is_file())
