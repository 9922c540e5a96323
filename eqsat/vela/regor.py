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

from eqsat.target import Target
from eqsat.vela import broadcasts, pieces, staging
from eqsat.vela.facts import facts


class RawOutput(TypedDict):
    """Vela's raw output of a TOSA graph, in the form in which processes send it.

    stream: the command stream with the driver's header
    read_only: the constants
    scratch, scratch_fast: sizes of memory in bytes
    inputs, outputs: (shape, bytes of an element, region, address) of each tensor
    operators: (offset in the stream, result of its TOSA operator) of each operation
    """

    stream: bytes
    read_only: bytes
    scratch: int
    scratch_fast: int
    inputs: list[tuple[list[int], int, int, int]]
    outputs: list[tuple[list[int], int, int, int]]
    operators: list[tuple[int, str]]


def vela(buffer: bytes, form: str, flags: list[str]) -> dict[str, Any]:
    """Compiles a graph once and returns its figures and, for TOSA, its raw output.

    form: "TOSA" or "TFLITE".
    flags: Vela's command-line flags.
    Raises Vela's exceptions, and ImportError with the remedy if Vela is not installed.
    """
    try:
        from ethosu import regor
    except ImportError as e:
        raise ImportError(f"{e}: pip install ethos-u-vela") from e

    asked = _configuration(tuple(flags))
    options = asked.options
    if form == "TFLITE":
        options = options.replace("output_format=Raw", "output_format=TFLite", 1)
    model = regor.compile(asked.accelerator, buffer, form, asked.system, options=options)
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
        "npu_cycles": int(report.npuCycles),
        "rows": _rows(tables, asked, results),
        "memory": memories,
        "rates": asked.rates,
        "dedicated": asked.dedicated,
        "lost": _lost_outputs(model, buffer) if form == "TOSA" else "",
        "raw": _raw_output(model, tables, results) if results is not None else None,
        "binary": [len(model.command_stream), len(model.read_only.data)] if form == "TOSA" else [len(model.model)],
        "cpu_operators": int(report.cpuOps),
        "tensors": _in_sram(model.opt_database.tables),
    }


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
    bursts   : {memory: bytes of its longest burst}; empty if the table needs no correction
    dedicated: bytes of SRAM that the NPU has to itself
    """

    accelerator: str
    system: str
    options: str
    rates: tuple[int, float, float, float]
    constants: str
    bursts: Mapping[str, int]
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
    charges = Target.from_flags(flags).family.blocked_elementwise and facts().broadcasts_by_element
    bursts = {area.name: int(arch.memory_burst_length[area]) for area in type(constants).all()} if charges else {}
    dedicated = int(arch.arena_cache_size) if arch.is_spilling_enabled() else 0
    return _Configuration(accelerator, config, options, rates, constants.name, bursts, dedicated)


def _rows(tables: dict[str, Any], asked: _Configuration, results: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """Returns Vela's table by operator with more columns.

    corrected    : corrected cycles (`_corrected`)
    busy_cycles  : cycles in which it computes or writes
    sram_bytes   : bytes of SRAM in use meanwhile
    weight_bytes : bytes of its encoded weights
    command_bytes: bytes of its commands
    source       : result of its TOSA operator; only if `results` is given
    """
    if "perf" not in tables:
        return []
    t = tables["perf"]
    keep = [i for i, h in enumerate(t.header) if h in ("operator", "name", "op_cycles", "npu_cycles", "mac_count")]
    rows = [{t.header[i]: row[i] for i in keep} for row in t.data]
    number, used = (list(t.header).index(name) for name in ("id", "staging_usage"))
    busy, commands, weights = _busy(tables), _commands(tables), _weights(tables)
    details, blocks = _by_id(tables["perf_debug"]), _by_id(tables["perf_debug_main"])
    reusing = staging.reusing(list(details.values()), _buffers(tables)) if facts().copies_charged_again else set()
    for row, given in zip(rows, t.data):
        whole = dict(zip(t.header, given))
        row["corrected"] = _corrected(
            whole, details[given[number]], blocks.get(given[number], {}), given[number] in reusing, asked
        )
        row["busy_cycles"] = min(int(row["npu_cycles"]), busy.get(given[number], int(row["npu_cycles"])))
        row["sram_bytes"] = int(given[used])
        row["weight_bytes"] = weights.get(given[number], 0)
        row["command_bytes"] = commands.get(given[number], 0)
    if results is not None:
        source_id = list(t.header).index("source_id")
        for row, given in zip(rows, t.data):
            row["source"] = results.get(given[source_id], "")
    return rows


def _corrected(
    row: Mapping[str, str],
    details: Mapping[str, str],
    blocks: Mapping[str, str],
    reuses: bool,
    asked: _Configuration,
) -> int:
    """Returns the cycles of a row after all corrections: the least of them.

    reuses: whether its weights are in SRAM already.
    """
    cycles = [int(row["op_cycles"])]
    if asked.bursts:
        cycles.append(broadcasts.corrected(row, details, blocks, asked.bursts))
    if facts().pieces_as_wholes:
        cycles.append(pieces.corrected_piece(row, details, blocks))
    if reuses:
        cycles.append(staging.corrected_reuse(row, details, blocks, asked.constants))
    return min(cycles)


def _buffers(tables: dict[str, Any]) -> list[staging.Buffer]:
    """Returns the buffers of weights in SRAM."""
    rows = (r for r in _allocated(tables) if r["usage"] == "OpBuffering")
    return [staging.Buffer(r["name"], int(r["start_time"]), int(r["end_time"])) for r in rows]


def _allocated(tables: dict[str, Any]) -> list[dict[str, str]]:
    """Returns the rows of Vela's table of allocations, by column; none if it has no such table."""
    return [dict(zip(tables["tensors"].header, row)) for row in tables["tensors"].data] if "tensors" in tables else []


def _by_id(table: Any) -> dict[str, dict[str, str]]:
    """Returns {id: the row, by column} of a table of Vela's."""
    number = list(table.header).index("id")
    return {row[number]: dict(zip(table.header, row)) for row in table.data}


def _busy(tables: dict[str, Any]) -> dict[str, int]:
    """Returns {id: cycles in which an operator with weights computes or writes}.

    Its NPU cycles also contain those in which weights are being fetched.
    """
    details, parts = tables["perf_debug"], tables["perf_debug_main"]
    weights = list(details.header).index("weight_total_bytes")
    weighted = {row[0] for row in details.data if row[weights]}
    columns = [list(parts.header).index(name) for name in ("mac_cycles", "ao_cycles")]
    return {row[0]: max(int(row[i] or 0) for i in columns) for row in parts.data if row[0] in weighted}


def _weights(tables: dict[str, Any]) -> dict[str, int]:
    """Returns {id: bytes of encoded weights}.

    Scales are not counted; the table leaves them empty.
    """
    details = tables["perf_debug"]
    number, size = (list(details.header).index(name) for name in ("id", "weight_total_bytes"))
    return {row[number]: int(row[size] or 0) for row in details.data}


def _commands(tables: dict[str, Any]) -> dict[str, int]:
    """Returns {id: bytes of commands}, up to the next operator's.

    The commands of the last operator of a stream are left out, because its end is not known.
    """
    out: dict[str, int] = {}
    rows = [dict(zip(tables["queue"].header, row)) for row in tables["queue"].data]
    queue = sorted((int(r["offset"]), r["scheduled_id"]) for r in rows)
    for (offset, number), (end, _) in itertools.pairwise(queue):
        out[number] = out.get(number, 0) + end - offset
    return out


def _in_sram(tables: dict[str, Any]) -> list[tuple[str, int, int, int, int]]:
    """Returns the tensors and buffers of weights in Vela's allocation of SRAM.

    Each is (name, first step, last step, address, end).
    A tensor that a cascade passes on piece by piece takes less than its size.
    """
    return [
        (
            r["name"],
            int(r["start_time"]),
            int(r["end_time"]),
            int(r["start_address"], 16),
            int(r["end_address"], 16),
        )
        for r in _allocated(tables)
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
        "operators": _queued(tables, results),
    }


def _queued(tables: dict[str, Any], results: Mapping[str, str]) -> list[tuple[int, str]]:
    """Returns (offset, result of the TOSA operator) of every operation of a command stream.

    Operations that are made from no operator are left out.
    """
    source = {row[0]: row[1] for row in tables["optimised"].data}
    rows = [dict(zip(tables["queue"].header, row)) for row in tables["queue"].data]
    found = ((int(r["offset"]), results.get(source.get(r["optimised_id"], ""), "")) for r in rows)
    return [(offset, name) for offset, name in found if name]
