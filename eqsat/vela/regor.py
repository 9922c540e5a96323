"""Vela's compiler, called in the process that imports this module.

Import it in a worker, because the compiler may crash, leak or hang (`compile.py`).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypedDict

from eqsat.vela.table import InSram, Row

#: The first bytes of a command stream, for the driver.
_DRIVER = b"COP1"


class RawOutput(TypedDict):
    """Vela's raw output of a TOSA graph, in the form in which processes send it.

    stream: the command stream with the driver's header
    read_only: the constants
    scratch, scratch_fast: sizes of memory in bytes
    inputs, outputs: (shape, bytes of an element, region, address) of each tensor
    operators: (offset of its last command, result of its TOSA operator) of each operation
    rows: (offset of its last command, row of Vela's table) of each operation
    """

    stream: bytes
    read_only: bytes
    scratch: int
    scratch_fast: int
    inputs: list[tuple[list[int], int, int, int]]
    outputs: list[tuple[list[int], int, int, int]]
    operators: list[tuple[int, str]]
    rows: list[tuple[int, int]]


def vela(buffer: bytes, form: str, flags: list[str]) -> dict[str, Any]:
    """Compiles a graph once and returns its figures and, for TOSA, its raw output.

    form: "TOSA" or "TFLITE".
    flags: Vela's command-line flags.
    Raises Vela's exceptions, and ImportError with the remedy if Vela is not installed.
    """
    asked, model = _compile(buffer, form, flags)
    report, tables = model.perf_report, model.opt_database.tables
    results = _results(tables, buffer) if form == "TOSA" else None
    memories = {
        name: {
            "peak": int(m.peakUsage),
            "read": sum(a.bytesRead for a in m.accesses.values()),
            "written": sum(a.bytesWritten for a in m.accesses.values()),
        }
        for name, m in report.memories.items()
    }
    constants = asked.constants
    if constants == "OnChipFlash" and constants not in memories:  # as in Vela's own summary
        memories[constants] = {"peak": int(report.readOnlyPeakUsage), "read": 0, "written": 0}
        memories["Sram"]["peak"] -= memories[constants]["peak"]
    return {
        "cycles": int(report.totalCycles),
        "rows": [row.record() for row in _rows(tables, results)],
        "memory": memories,
        "rates": asked.rates,
        "dedicated": asked.dedicated,
        "lost": _lost_outputs(model, buffer) if form == "TOSA" else "",
        "raw": _raw_output(model, tables, results) if results is not None else None,
        "parts": [] if form == "TOSA" else _streams(bytes(model.model)),
        "binary": [len(model.command_stream), len(model.read_only.data)] if form == "TOSA" else [len(model.model)],
        "cpu_operators": int(report.cpuOps),
        "tensors": _in_sram(tables),
    }


def table(buffer: bytes, flags: list[str]) -> tuple[list[Row], bytes, dict[int, int]]:
    """Compiles a TOSA graph once and returns Vela's table of it, without sources.

    Also returns the command stream, and {offset of an operation's last command in it: its row}.
    Raises what `vela` raises, and ValueError if the binary lacks outputs.
    """
    _, model = _compile(buffer, "TOSA", flags)
    if lost := _lost_outputs(model, buffer):
        raise ValueError(lost)
    tables = model.opt_database.tables
    return _rows(tables, None), bytes(model.command_stream), dict(_rows_queued(tables))


def _compile(buffer: bytes, form: str, flags: list[str]) -> tuple[_Configuration, Any]:
    """Compiles a graph and returns the configuration and Vela's result, for the arguments of `vela`; raises like it."""
    try:
        from ethosu import regor
    except ImportError as e:
        raise ImportError(f"{e}: pip install ethos-u-vela") from e

    asked = _configuration(tuple(flags))
    options = asked.options
    if form == "TFLITE":
        options = options.replace("output_format=Raw", "output_format=TFLite", 1)
    model = regor.compile(asked.accelerator, buffer, form, asked.system, options=options)
    return asked, model


def _streams(tflite: bytes) -> list[bytes]:
    """Returns the command streams in a .tflite, one for each part of the network that the NPU runs.

    Each is a vector of bytes, behind its length, that begins with the driver's mark.
    """
    found, at = [], tflite.find(_DRIVER)
    while at >= 0:
        length = int.from_bytes(tflite[at - 4 : at], "little")
        if len(_DRIVER) < length <= len(tflite) - at:
            found.append(tflite[at : at + length])
        at = tflite.find(_DRIVER, at + 1)
    return found


def _lost_outputs(model: Any, buffer: bytes) -> str:
    """Returns in words which outputs the binary lacks, "" if it has all."""
    block = _block(buffer)
    wanted, there = len({block.Outputs(i) for i in range(block.OutputsLength())}), len(model.outputs)
    return f"its binary has only {there} of {wanted} outputs" if there < wanted else ""


class _Configuration(NamedTuple):
    """The input of Vela's compiler, and figures of the target.

    accelerator, system, options: the arguments of the compiler
    rates    : the `Rates` that Vela has read for the target
    constants: the name of the memory of constants
    dedicated: bytes of SRAM that the NPU has to itself
    """

    accelerator: str
    system: str
    options: str
    rates: tuple[int, float, float, float]
    constants: str
    dedicated: int


@cache
def _configuration(flags: tuple[str, ...]) -> _Configuration:
    """Returns the configuration that Vela's own command line makes from `flags`."""
    from ethosu.vela import vela as command

    seen: list[tuple[Any, str, str, str]] = []
    original = command.process_regor
    command.process_regor = lambda arch, name, accelerator, config, options, *rest, **kw: seen.append(
        (arch, accelerator, config, options)
    )
    try:
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "empty.tosa")
            with open(path, "wb") as f:
                f.write(b"\0\0\0\0TOSA")
            command.main([*flags, f"--output-dir={d}", path])
    except SystemExit as e:
        raise RuntimeError(f"Vela refuses the flags {' '.join(flags)} (exit code {e.code})") from e
    finally:
        command.process_regor = original
    arch, accelerator, config, options = seen[0]
    if "enable_db=true" not in options:
        options = options.replace("[compiler]\n", "[compiler]\nenable_db=true\n", 1)
    constants, bandwidth = arch.permanent_storage_mem_area, arch.memory_bandwidths_per_cycle
    rates = (
        arch.num_macs_per_cycle * arch.ncores,
        float(bandwidth[constants]),
        float(bandwidth[arch.fast_storage_mem_area]),
        float(arch.core_clock),
    )
    dedicated = int(arch.arena_cache_size) if arch.is_spilling_enabled() else 0
    return _Configuration(accelerator, config, options, rates, constants.name, dedicated)


def _rows(tables: dict[str, Any], results: Mapping[str, str] | None) -> list[Row]:
    """Returns Vela's table by operator; results: those of the TOSA operators (`_results`)."""
    if "perf" not in tables:
        return []
    details, blocks, commands = _by_id(tables["perf_debug"]), _by_id(tables["perf_debug_main"]), _commands(tables)
    rows = []
    for columns in _by_column(tables["perf"]):
        number, npu_cycles = columns["id"], int(columns["npu_cycles"])
        detail, block = details[number], blocks.get(number, {})
        busy = npu_cycles
        if detail["weight_total_bytes"] and block:  # its NPU cycles have those in which weights are on their way, too
            busy = min(npu_cycles, max(int(block[name] or 0) for name in ("mac_cycles", "ao_cycles")))
        row = Row(
            columns["operator"],
            columns["name"],
            int(columns["op_cycles"]),
            npu_cycles,
            int(columns["mac_count"]),
            busy_cycles=busy,
            sram_bytes=int(columns["staging_usage"]),
            weight_bytes=int(detail["weight_total_bytes"] or 0),
            command_bytes=commands.get(number, 0),
            source=None if results is None else results.get(columns["source_id"], ""),
        )
        rows.append(row)
    return rows


def _by_column(table: Any) -> list[dict[str, str]]:
    """Returns the rows of a table of Vela's, {column: text} each."""
    return [dict(zip(table.header, row)) for row in table.data]


def _by_id(table: Any) -> dict[str, dict[str, str]]:
    """Returns {id: the row, by column} of a table of Vela's."""
    return {row["id"]: row for row in _by_column(table)}


def _commands(tables: dict[str, Any]) -> dict[str, int]:
    """Returns {id: bytes of commands}, those behind the last command of the operation before, up to its own."""
    out: dict[str, int] = {}
    queue = sorted((int(r["offset"]), r["scheduled_id"]) for r in _by_column(tables["queue"]))
    for (before, _), (offset, number) in itertools.pairwise([(0, ""), *queue]):
        out[number] = out.get(number, 0) + offset - before
    return out


def _in_sram(tables: dict[str, Any]) -> list[InSram]:
    """Returns the tensors and buffers of weights in SRAM; none if Vela has no table of them."""
    return [
        InSram(
            r["name"],
            int(r["start_time"]),
            int(r["end_time"]),
            int(r["start_address"], 16),
            int(r["end_address"], 16),
        )
        for r in (_by_column(tables["tensors"]) if "tensors" in tables else [])
        if r["memory"] == "Sram"
    ]


def _results(tables: dict[str, Any], buffer: bytes) -> dict[str, str]:
    """Returns {id in Vela's table of its input: result of the TOSA operator}."""
    block = _block(buffer)
    # the last column counts the operators of the flatbuffer
    numbers = {row[0]: int(row[-1]) for row in tables["source"].data}
    return {k: block.Operators(n).Outputs(0).decode() for k, n in numbers.items() if 0 <= n < block.OperatorsLength()}


def _block(buffer: bytes) -> Any:
    """Returns the basic block of a flatbuffer that has one."""
    from tosa.TosaGraph import TosaGraph

    return TosaGraph.GetRootAs(buffer, 0).Regions(0).Blocks(0)


def _raw_output(model: Any, tables: dict[str, Any], results: Mapping[str, str]) -> RawOutput:
    inputs, outputs = (
        [([int(n) for n in t.shape], int(t.element_size), int(t.region), int(t.address)) for t in tensors]
        for tensors in (model.inputs, model.outputs)
    )
    return {
        "stream": bytes(model.command_stream),
        "read_only": bytes(model.read_only.data),
        "scratch": int(model.scratch.size),
        "scratch_fast": int(model.scratch_fast.size),
        "inputs": inputs,
        "outputs": outputs,
        "operators": _list_queued(tables, results),
        "rows": _rows_queued(tables),
    }


def _list_queued(tables: dict[str, Any], results: Mapping[str, str]) -> list[tuple[int, str]]:
    """Returns (offset of its last command, result of its TOSA operator) of each operation made from one."""
    source = {row[0]: row[1] for row in tables["optimised"].data}
    queue = _by_column(tables["queue"])
    found = ((int(r["offset"]), results.get(source.get(r["optimised_id"], ""), "")) for r in queue)
    return [(offset, name) for offset, name in found if name]


def _rows_queued(tables: dict[str, Any]) -> list[tuple[int, int]]:
    """Returns (offset of its last command, row of the table) of every operation of a stream."""
    rows = {row["id"]: k for k, row in enumerate(_by_column(tables["perf"]))} if "perf" in tables else {}
    queue = ((int(r["offset"]), rows.get(r["scheduled_id"])) for r in _by_column(tables["queue"]))
    return [(offset, row) for offset, row in queue if row is not None]
