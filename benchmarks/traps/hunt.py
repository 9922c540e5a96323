"""What Vela's totals, the corrected ones and the price of the commands say of graphs and of changes that cost a device
nothing or a known little.

A change is a finding where Vela's total falls by more than the price of the commands does; a graph by itself where the
two are far from each other. Either is looked for in the largest shape, and told of the smallest that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.traps.graphs import CHANGES, GRAPHS, SHAPES, UNCHANGED, Change, Maker
from cost_models.command_stream import price
from eqsat.device.core.errors import DeviceError
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.target.family import HWC
from eqsat.tensor.types import GraphError
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.vela.facts import version

#: Of a change: by so large a share of the total before, and so many cycles, Vela's total falls further than the price
#: of the commands.
SHARE, CYCLES = 0.05, 50
#: Of a graph: so many times as much as the other.
FAR = 1.25


@dataclass(frozen=True, slots=True)
class Totals:
    """Cycles by Vela, corrected, and of the commands, with their number."""

    vela: int
    corrected: int
    price: int
    commands: int


@dataclass(frozen=True, slots=True)
class Finding:
    """change: "" where the graph by itself is one. after: with the change, the graph's own again without one."""

    vela: str
    target: str
    graph: str
    change: str
    shape: HWC
    before: Totals
    after: Totals


def findings(target: Target, pool: Pool, graphs: dict[str, Maker] = GRAPHS) -> Iterator[Finding]:
    """All of a target. What Vela refuses, and commands that cannot be decoded, are passed over."""
    for name, make in graphs.items():
        for change in (UNCHANGED, *CHANGES):
            found: Finding | None = None
            for shape in SHAPES:
                totals = _both(make, change, shape, target, pool)
                if totals is None or not (_pays if change.name else _is_far)(*totals):
                    break
                found = Finding(version(), target.accelerator, name, change.name, shape, *totals)
            if found is not None:
                yield found


def _both(make: Maker, change: Change, shape: HWC, target: Target, pool: Pool) -> tuple[Totals, Totals] | None:
    """Without the change and with it; None where the change changes nothing, or either has no totals."""
    try:
        before, after = (dumps(make(shape, c)) for c in (UNCHANGED, change))
    except GraphError:
        return None
    if change.name and before == after:
        return None
    totals = [_totals(buffer, target, pool) for buffer in dict.fromkeys((before, after))]
    first, last = totals[0], totals[-1]
    return (first, last) if first and last else None


def _totals(buffer: bytes, target: Target, pool: Pool) -> Totals | None:
    try:
        estimate = compile_tosa(buffer, target, pool, timeout=60)
        found = price(estimate.stream, target)
    except (WorkerError, DeviceError):
        return None
    return Totals(estimate.cycles, estimate.corrected, found.cycles, found.commands)


def _pays(before: Totals, after: Totals) -> bool:
    return unexplained(before, after, lambda t: t.vela) >= max(CYCLES, SHARE * before.vela)


def unexplained(before: Totals, after: Totals, total: Callable[[Totals], int]) -> int:
    """Cycles by which a total falls further than the price of the commands."""
    return total(before) - total(after) - max(0, before.price - after.price)


def _is_far(totals: Totals, _: Totals) -> bool:
    low, high = sorted((totals.vela, totals.price))
    return high - low >= CYCLES and high > FAR * low
