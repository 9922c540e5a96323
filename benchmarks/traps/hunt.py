"""The search for errors of Vela's estimate.

It compares Vela's total, the corrected total and the price of the commands of graphs and of their changes.
A change costs a device nothing, or a known little.
It is a finding if Vela's total falls by more than the price of the commands.
A graph by itself is a finding if the two are far from each other.
The search begins with the largest shape and reports the smallest that shows the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.traps.graphs import CHANGES, GRAPHS, SHAPES, UNCHANGED, Change, Maker
from cost_models.calibration import vela_constants
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

#: A change is a finding if Vela's total falls by so much more than the price of the commands.
#: SHARE is a share of the total before, CYCLES is in cycles; both are needed.
SHARE, CYCLES = 0.05, 50
#: A graph is a finding if one total is more than FAR times the other, and CYCLES above it.
FAR = 1.25


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a graph in cycles.

    vela: of Vela.
    corrected: the corrected total.
    price: of the command stream, by Vela's own constants: what measurements contradict is no trap.
    commands: number of commands.
    """

    vela: int
    corrected: int
    price: int
    commands: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A graph or a change for which Vela's total is not explained.

    vela: version of Vela.
    change: name of the change, "" if it is the graph by itself.
    before, after: without and with the change; both are of the graph if there is no change.
    """

    vela: str
    target: str
    graph: str
    change: str
    shape: HWC
    before: Totals
    after: Totals


def findings(target: Target, pool: Pool, graphs: dict[str, Maker] = GRAPHS) -> Iterator[Finding]:
    """Yields all findings of a target.

    It passes over graphs that Vela refuses, and commands that cannot be decoded.
    A shape without a finding ends the search among the smaller ones.
    """
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
    """Returns the totals without and with the change.

    None if the change changes nothing, or if either graph has no totals.
    """
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
    """Returns the totals of a graph, None if Vela refuses it or its commands cannot be decoded."""
    try:
        estimate = compile_tosa(buffer, target, pool, timeout=60)
        found = price(estimate.stream, target, vela_constants(target))
    except (WorkerError, DeviceError):
        return None
    return Totals(estimate.cycles, estimate.corrected, found.cycles, found.commands)


def _pays(before: Totals, after: Totals) -> bool:
    """Tells whether a change is a finding."""
    return unexplained(before, after, lambda t: t.vela) >= max(CYCLES, SHARE * before.vela)


def unexplained(before: Totals, after: Totals, total: Callable[[Totals], int]) -> int:
    """Returns the cycles by which a total falls further than the price of the commands."""
    return total(before) - total(after) - max(0, before.price - after.price)


def _is_far(totals: Totals, _: Totals) -> bool:
    """Tells whether a graph by itself is a finding."""
    low, high = sorted((totals.vela, totals.price))
    return high - low >= CYCLES and high > FAR * low
