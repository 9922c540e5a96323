"""Vela's compiler, called in the process that imports this module.

Import it in a worker, because the compiler may crash, leak or hang (`compile.py`).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypedDict

from eqsat.vela.table import InSram, Row


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


def vela(buffer: bytes, flags: list[str]) -> dict[str, Any]:
    """Compiles a TOSA graph with Vela's command-line flags and returns its `figures` and its raw output.

    Raises Vela's exceptions, ValueError if the binary lacks outputs, and ImportError if Vela is not installed.
    """
    try:
        from ethosu import regor
    except ImportError as e:
        raise ImportError(f"{e}: pip install ethos-u-vela") from e
    from tosa.TosaGraph import TosaGraph

    asked = configure(tuple(flags))
    model = regor.compile(asked.accelerator, buffer, "TOSA", asked.system, options=asked.options)
    block, tables = TosaGraph.GetRootAs(buffer, 0).Regions(0).Blocks(0), model.opt_database.tables
    wanted, there = len({block.Outputs(i) for i in range(block.OutputsLength())}), len(model.outputs)
    if there < wanted:
        raise ValueError(f"its binary has only {there} of {wanted} outputs")
    results = _results(tables, block)
    found = figures(asked, model, results)
    return {**found, "raw": _raw_output(model, tables, found["rows"])}


def figures(asked: Configuration, model: Any, results: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of `Estimate`, but the raw output. model: Vela's result; results: those of `_results`."""
    report, tables = model.perf_report, model.opt_database.tables
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
        "tensors": _in_sram(tables),
        "dedicated": asked.dedicated,
    }


class Configuration(NamedTuple):
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
def configure(flags: tuple[str, ...]) -> Configuration:
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
    return Configuration(accelerator, config, options, rates, constants.name, dedicated)


def _rows(tables: dict[str, Any], results: Mapping[str, str]) -> list[Row]:
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
            source=results.get(columns["source_id"], ""),
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
    """Returns {id: bytes of commands}, from those after the last one of the operation before up to its own last one."""
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


def _results(tables: dict[str, Any], block: Any) -> dict[str, str]:
    """Returns {id in Vela's table of its input: result of the TOSA operator}."""
    # the last column counts the operators of the flatbuffer
    numbers = {row[0]: int(row[-1]) for row in tables["source"].data}
    return {k: block.Operators(n).Outputs(0).decode() for k, n in numbers.items() if 0 <= n < block.OperatorsLength()}


def _raw_output(model: Any, tables: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> RawOutput:
    """Returns the raw output; rows: the records of Vela's table."""
    queued = _rows_queued(tables)
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
        "operators": [(offset, source) for offset, row in queued if (source := rows[row]["source"])],
        "rows": queued,
    }


def _rows_queued(tables: dict[str, Any]) -> list[tuple[int, int]]:
    """Returns (offset of its last command, row of the table) of every operation of a stream."""
    rows = {row["id"]: k for k, row in enumerate(_by_column(tables["perf"]))} if "perf" in tables else {}
    queue = ((int(r["offset"]), rows.get(r["scheduled_id"])) for r in _by_column(tables["queue"]))
    return [(offset, row) for offset, row in queue if row is not None]
