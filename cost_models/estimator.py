"""Closed forms of Vela 5.1's estimate: MAC blocks, output path, memory. No Vela at run time.

Formulas and constants are those of its C++ compiler (regor), read in the sources that ethos-u-vela publishes: architecture/ethosu55,
ethosu65 and ethosu85, `*_performance.cpp` and the tables of accelerator configurations. An operator takes the larger of the NPU's cycles
and of each memory's; the NPU's are those of the slower of MAC array and output path, plus one block of the other that does not overlap.
The block that Vela searches for is searched here among a handful of shapes.
"""
from __future__ import annotations

import configparser
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, prod
from pathlib import Path

from eqsat.target import Target


@dataclass(frozen=True, slots=True)
class Core:
    """One accelerator configuration. blocks: micro blocks (h, w, c) of the output, by choice. Cycles per element of the output path:
    byte, add (INT8 sum), mul (INT8 product), wide (sum or product of INT32), plain (without an activation behind it, U55 and U65).
    accumulators: elements of the largest output block. pooling: passes per byte of a pooled element."""

    blocks: tuple[tuple[int, int, int], ...]
    byte: float
    add: float
    mul: float
    wide: float
    plain: float
    accumulators: int
    cores: int = 1
    pooling: int = 4


#: ethos_u55.cpp, ethos_u65.cpp, ethos_u85.cpp: accelerator configurations and their output and activation cycles.
CORES = {
    "ethos-u55-32": Core(((1, 1, 4),), 2.0, 6.0, 3.0, 3.0, 1.0, 1024, pooling=1),
    "ethos-u55-64": Core(((1, 1, 8),), 1.0, 3.0, 1.5, 1.5, 1.0, 1024),
    "ethos-u55-128": Core(((1, 2, 8),), 0.5, 1.5, 0.75, 1.25, 1.0, 1536),
    "ethos-u55-256": Core(((2, 2, 8),), 0.25, 0.75, 0.375, 1.125, 1.0, 3072),
    "ethos-u65-256": Core(((2, 2, 8),), 0.25, 0.75, 0.375, 1.125, 1.0, 3072),
    "ethos-u65-512": Core(((2, 2, 8),), 0.125, 0.375, 0.1875, 0.5625, 0.5, 3072, 2),
    "ethos-u85-128": Core(((1, 2, 8), (1, 1, 16)), 0.5, 0.5, 0.5, 1.0, 0.5, 2048),
    "ethos-u85-256": Core(((1, 2, 16), (1, 4, 8), (2, 2, 8)), 0.25, 0.25, 0.25, 0.5, 0.25, 4096),
    "ethos-u85-512": Core(((2, 2, 16), (1, 4, 16)), 0.125, 0.125, 0.125, 0.25, 0.125, 8192, 2),
    "ethos-u85-1024": Core(((2, 2, 32), (1, 4, 32), (2, 4, 16)), 0.0625, 0.0625, 0.0625, 0.25, 0.0625, 16384, 4),
    "ethos-u85-2048": Core(((2, 2, 64), (1, 4, 64), (4, 4, 16)), 0.03125, 0.03125, 0.03125, 0.125, 0.03125, 32768, 4),
}
#: Bytes that an AXI port moves per cycle at a clock scale of one, by family.
_PORT = {"u55": 8.0, "u65": 16.0, "u85": 16.0}
#: Bytes of scale and bias per output channel; bytes that a byte of weights takes encoded (trained or random ones, not sparse).
_SCALES, _ENCODED = 10, 0.98


@dataclass(frozen=True, slots=True)
class Memory:
    """bandwidth: bytes per cycle; latency: cycles of a read; burst: bytes of the longest burst."""

    bandwidth: float
    latency: int
    burst: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A target as the closed forms see it: `activations` and `constants` are where those live."""

    family: str
    core: Core
    activations: Memory
    constants: Memory


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
        return Memory(_PORT[target.family] * system.getfloat(f"{name}_clock_scale") * system.getint(f"{name}_ports_used", 1),
                      system.getint(f"{name}_read_latency"), system.getint(f"{name}_burst_length"))
    # a cache in SRAM holds the activations of all but the largest graphs
    area = "cache_mem_area" if "cache_mem_area" in mode else "arena_mem_area"
    return Machine(target.family, CORES[target.accelerator], memory(area), memory("const_mem_area"))


def _ini(name: str) -> Path:
    if Path(name).is_file():
        return Path(name)
    spec = importlib.util.find_spec("ethosu")
    places = [Path(p) / sub / "config_files" / name for p in spec.submodule_search_locations for sub in ("", "regor", "vela")]
    return next(p for p in places if p.is_file())


def _padded(shape: tuple[int, int, int], block: tuple[int, int, int]) -> int:
    return prod(ceil(d / b) for d, b in zip(shape, block))


def _blocks(shape: tuple[int, int, int], micro: tuple[int, int, int], most: int) -> Iterator[tuple[int, int, int]]:
    """Output blocks to try: whole micro blocks, as much depth, then width, then height as the accumulators hold."""
    up = [ceil(d / m) * m for d, m in zip(shape, micro)]
    for depth in dict.fromkeys(min(up[2], -(-d // micro[2]) * micro[2]) for d in (16, 32, 48, 64, 128)):
        width = min(up[1], max(micro[1], most // (depth * micro[0]) // micro[1] * micro[1]), 64)
        height = min(up[0], max(micro[0], most // (depth * width) // micro[0] * micro[0]), 32)
        yield height, width, depth


def mac(m: Machine, out: tuple[int, int, int], depth: int, kernel: tuple[int, int], *, depthwise: bool = False, weights: int = 0,
        element_bytes: int = 1, path: float | None = None) -> float:
    """Cycles of a convolution, depthwise convolution or product of matrices with an output of `out` (h, w, c) from `depth` channels.

    weights: bytes of constants. path: output cycles per element (None: a plain output).
    """
    path = max(m.core.byte, m.core.plain) if path is None else path
    best = inf
    for micro in m.core.blocks:
        for block in _blocks(out, micro, m.core.accumulators):
            inside = tuple(min(a, b) for a, b in zip(block, out))
            n = _padded(out, micro) / _padded(inside, micro)
            work = _mac_block(m, inside, micro, depth, kernel, depthwise, element_bytes)
            output = max(ceil(path * prod(inside)), _SCALES * inside[2] * m.activations.latency / 256 if weights else 0)
            npu = n * max(work, output) + min(work, output) + 2 * m.activations.latency
            tiles = _padded(out[:2] + (1,), inside[:2] + (1,))
            slices = 1 if depthwise else ceil(out[2] / inside[2])
            moved = element_bytes * depth * slices * tiles * prod(d + k - 1 for d, k in zip(inside[:2], kernel)) + prod(out)
            constants = tiles * _SCALES * out[2]
            memory = moved / m.activations.bandwidth
            if m.constants == m.activations:
                memory += tiles * weights / m.activations.bandwidth
            else:                                        # fetched once into SRAM where that is better than again for every tile
                constants += min(tiles * weights, weights) * _ENCODED
            best = min(best, max(npu, memory, constants / m.constants.bandwidth if m.constants != m.activations else 0))
    return best


def _mac_block(m: Machine, block: tuple[int, int, int], micro: tuple[int, int, int], depth: int, kernel: tuple[int, int], depthwise: bool,
               element_bytes: int) -> float:
    """Cycles of the MAC array for one block.

    Depth first takes the channels of one kernel element at a time, part kernel four kernel elements (two of INT16) of 8 channels;
    Vela takes the one that leaves fewer lanes idle.
    """
    h, w, d = (ceil(b / u) for b, u in zip(block, micro))
    feed = 32 * micro[2] / (8 * (m.core.cores if m.family == "u85" else 1))
    taps, step = prod(kernel), max(1, 4 // element_bytes)
    if depthwise:
        return max(feed, 4 * h * w * element_bytes) * _subkernels(kernel, 4) * d
    wide = 128 if m.family == "u85" else 32
    if depth / (ceil(depth / wide) * wide) <= depth / (ceil(depth / 8) * 8) * taps / (ceil(taps / step) * step):
        cycles = max(feed, 4 * h * w) * _subkernels(kernel, step) * d * ceil(depth / 8)
    elif m.family == "u85":
        lanes = min(64, 16 * ceil(depth / 16))
        cycles = max(feed, lanes / 8 * h * w) * taps * d * element_bytes * ceil(depth / lanes)
    else:
        cycles = max(feed, 4 * h * w) * taps * d * ceil(depth / 32)
    stall = 2 * taps * ceil(depth / 32) if h * w == 1 else 0
    return (cycles + stall) / (m.core.cores if m.family != "u85" else 1)


def _subkernels(kernel: tuple[int, int], step: int) -> int:
    """Steps over a kernel that is cut in pieces of at most 8 x 8."""
    return sum(ceil(min(8, kernel[0] - y) * min(8, kernel[1] - x) / step) for y in range(0, kernel[0], 8) for x in range(0, kernel[1], 8))


def pool(m: Machine, out: tuple[int, int, int], taps: int = 1, element_bytes: int = 1, path: float | None = None) -> float:
    """Cycles of a pooling, and of what runs as a 1x1 pooling: RESCALE, CLAMP, TABLE, copies, and U85's transposes."""
    path = max(m.core.byte, m.core.plain) if path is None else path
    work = min(max(4, taps) * _padded(out, micro) * (m.core.pooling * element_bytes) for micro in m.core.blocks)
    share = min(1.0, m.core.accumulators / max(1, prod(out)))
    output = path * prod(out)
    moved = 2 * prod(out) * element_bytes / m.activations.bandwidth
    return max(max(work, output) + share * min(work, output) + 2 * m.activations.latency, moved)


def elementwise(m: Machine, out: tuple[int, int, int], path: float, moved: int, stored: bool = False) -> float:
    """Cycles of an elementwise op that moves so many bytes. stored: an operand is constant, and read anew for every block, in bricks
    of 16 bytes that waste most of a burst."""
    elements = out[0] * out[1] * ceil(out[2] / 16) * 16 if out[2] > 1 else prod(out)
    constants = elements * m.constants.burst / 16 / m.constants.bandwidth if stored and m.constants != m.activations else 0.0
    return max(path * elements, moved / m.activations.bandwidth, constants)


def transpose(m: Machine, shape: tuple[int, int, int], perm: tuple[int, int, int], element_bytes: int) -> float:
    """Cycles of one native TRANSPOSE of (h, w, c): of memory on U55 and U65, a pooling of the result on U85."""
    out = tuple(shape[p] for p in perm)
    if m.family == "u85":
        swapped = perm in ((1, 0, 2), (2, 1, 0), (0, 2, 1)) and perm != (0, 2, 1)
        deep = max(1.0, shape[2] / 128) if perm != (1, 0, 2) else 1.0
        return pool(m, out, element_bytes=element_bytes, path=m.core.byte * (2 if swapped else 1)) * deep
    size = prod(shape) * element_bytes
    burst = m.activations.burst
    read = burst / min(burst, 8 * ceil(min(shape[2], 32) / 8) * element_bytes)
    write = burst / min(burst, 64, 16 * element_bytes * m.core.cores, 8 * ceil(out[2] / 8) * element_bytes)
    return size * (read + write) / m.activations.bandwidth
