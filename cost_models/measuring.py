"""Units that Vela measures in worker processes, several of them in a call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cost_models.command_stream import price_rows
from cost_models.probes import probe
from cost_models.protocol import Unit
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.types import Const, GraphError, Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.regor import vela

#: Units in one call, so that a call takes far longer than its messages.
_BATCH = 8
#: Seconds that Vela may take for one call.
TIME_LIMIT = 60


def measure(units: Sequence[Unit], target: Target, pool: Pool) -> list[float | None]:
    """Returns the calibrated cycles of each unit: inf if Vela refuses it, None if it has no graph of its own.

    Raises WorkerError if a probe cannot be made or read.
    """

    def of_batch(batch: Sequence[Unit]) -> list[float | None]:
        records, flags = [_record(unit) for unit in batch], list(target.flags)
        try:
            found: list[float | None] = pool.call(cycles, records, flags, limits=Limits(TIME_LIMIT))
            return found
        except WorkerError as e:  # Vela crashed or hung on one of them
            if e.refused:
                raise
            return [math.inf] if len(batch) == 1 else [c for unit in batch for c in of_batch([unit])]

    # units that are alike follow each other, and take about as long: each batch has some of them
    n = -(-len(units) // _BATCH)
    out: list[float | None] = [None] * len(units)
    for i, found in enumerate(pool.map(of_batch, [units[i::n] for i in range(n)])):
        out[i::n] = found
    return out


def cycles(records: Sequence[Any], flags: list[str]) -> list[float | None]:
    """Returns what `measure` tells of each unit; called in a worker."""
    return [_cycles(_unit(record), flags) for record in records]


def _cycles(unit: Unit, flags: list[str]) -> float | None:
    try:
        graph, pads = probe(unit)
    except GraphError:
        return None
    if unit.is_moved and unit.steps[0][0] == "reshape" and not unit.from_input:
        pads |= {f"{p}_copy" for p in pads}  # a view's copy for the second reader is charged apart from this
    buffer = dumps(graph)
    try:
        found = vela(buffer, flags)
    except Exception:  # noqa: BLE001 - Vela raises what it likes
        return math.inf
    _, cycles = price_rows(found["raw"]["stream"], Target.from_flags(flags), dict(found["raw"]["rows"]))
    return sum((c for k, c in cycles.items() if found["rows"][k]["name"] not in pads), 0.0)


def _record(unit: Unit) -> list[Any]:
    """Returns a unit as processes send it; its `move` is left out, as it has steps."""
    types = [(t.shape, t.dtype) for t in (*unit.operands, unit.result)]
    constants = [c and (c.data.tobytes(), c.data.dtype.str, c.data.shape) for c in unit.constants]
    return [_plain(unit.steps), _plain(types), constants, unit.from_input]


def _unit(record: Sequence[Any]) -> Unit:
    steps, pairs, constants, from_input = record
    *operands, result = (Type(tuple(shape), dtype) for shape, dtype in pairs)
    read = (c and Const(np.frombuffer(c[0], c[1]).reshape(c[2]), t.dtype) for c, t in zip(constants, operands))
    return Unit(_tuples(steps), tuple(operands), result, tuple(read), from_input=from_input)


def _plain(value: Any) -> Any:
    """Returns a value with Python's numbers in place of numpy's, which rules of users may compute."""
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _tuples(value: Any) -> Any:
    """Returns a value with tuples in place of the lists that JSON makes of them."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
