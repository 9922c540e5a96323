"""The calibrated price of a compiled graph: the cycles of its command stream, command by command.

Vela's total prices the operators of its graph: a TRANSPOSE that becomes 3,138 commands on U55 is one pass over memory.
Here every command takes the larger of its computing cycles and the cycles of each memory, plus `per_command`.
Copies take the bytes and the bandwidths of both memories.
They run beside the commands that do not wait for them, by the stream's waits.

Sources of the figures:

- The registers say what is computed, in which blocks, and which bytes lie where.
  Nothing of Vela's graph or table is used.
- Rates are documented: MACs and output path of a configuration, bandwidths and latencies of memories (`machine.py`).
- Cycles of a block, and the waste of short bursts, are Vela's formulas (`estimator.py`).
- Where measurements contradict them, the constants are those that fit (`calibration.py`).
- These differ from Vela, which is known to be wrong about them:
  - An operand that broadcasts is read once a block, not for every element of the result.
  - A command without an activation has none; Vela 5.1 takes it for a TABLE.
  - A RESIZE takes the output path; Vela 5.1 takes it for free.
  - Elements of INT16 and INT32 have their bytes; Vela 5.1 counts one.
  - The other operand of a wide scalar is read, too.
  - Pieces of an operator have their own shapes; Vela's total takes each for the whole.

So the price of a stream does not depend on the version of Vela that is installed.

Blocks of one command that overlap with those of the next (`Block.dependency`) are not modelled.
Neither are commands that share a memory's bandwidth with a copy: like Vela's total, it adds up.

>>> price(binary.stream, Target.of("ethos-u55-128")).cycles                     # doctest: +SKIP
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

from cost_models.calibration import Calibration, extremes
from cost_models.commands import Issued, price_commands
from cost_models.machine import hardware_of
from eqsat.device.binary import read_header
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Wait
from eqsat.target import Target

#: Commands that may be under way while the next waits to be issued.
#: (ethos_u55.hpp and ethos_u85.hpp: MaxOutstandingKernelOps.)
_OUTSTANDING = 2


@dataclass(frozen=True, slots=True)
class KindPrice:
    """The number of commands of one kind, and their cycles.

    For copies only the cycles count during which nothing else is done.
    """

    commands: int
    cycles: int


@dataclass(frozen=True, slots=True)
class StreamPrice:
    """The price of a command stream.

    cycles  : of the whole stream
    commands: how many it has, without waits
    by_kind : {convolution, pooling, elementwise, resize or copy: price}

    The cycles of a chain are those of the kind that it begins with.
    """

    cycles: int
    commands: int
    by_kind: dict[str, KindPrice]

    @staticmethod
    def together(prices: Iterable[StreamPrice]) -> StreamPrice:
        """Returns the price of streams that run one after the other."""
        every = list(prices)
        kinds: dict[str, KindPrice] = {}
        for kind, p in (item for found in every for item in found.by_kind.items()):
            old = kinds.get(kind, KindPrice(0, 0))
            kinds[kind] = KindPrice(old.commands + p.commands, old.cycles + p.cycles)
        return StreamPrice(sum(p.cycles for p in every), sum(p.commands for p in every), dict(sorted(kinds.items())))


def price(stream: bytes, target: Target, measured: Calibration | None = None) -> StreamPrice:
    """Returns the price of a command stream with the driver's header (`Binary.stream`).

    target: the target that it was compiled for; its flags name the memories.
    measured: constants in place of the calibrated ones.
    Raises DeviceError for a stream that cannot be decoded, or is for another accelerator.
    """
    return _by_kind(_schedule(_decode(stream, target), target, measured))


def price_rows(stream: bytes, target: Target, rows: Mapping[int, int]) -> tuple[StreamPrice, dict[int, float]]:
    """Returns the price of a stream, and {row of Vela's table: cycles}, which add up to it.

    rows: {offset of an operation's last command: its row}. The commands before it, of no row, belong to it too.
    A copy belongs to the row before.
    Raises DeviceError, like `price`.
    """
    schedule = list(_schedule(_decode(stream, target), target))
    out: dict[int, float] = defaultdict(float)
    row, begun, end = rows.get(min(rows), 0) if rows else 0, 0.0, 0.0
    for done in schedule:
        cycles, end = done.end - end, done.end
        if done.issued.kinds == ("copy",):
            out[row] += cycles
        elif done.issued.offset in rows:
            row = rows[done.issued.offset]
            out[row] += begun + cycles
            begun = 0.0
        else:
            begun += cycles
    out[row] += begun
    return _by_kind(schedule), dict(out)


class _Done(NamedTuple):
    """A command, the cycles that it takes by itself, and the cycle at which it and all before it end."""

    issued: Issued
    taken: float
    end: float


def _by_kind(schedule: Iterable[_Done]) -> StreamPrice:
    """Returns the price of the commands of a stream."""
    counts, cycles, end = Counter[str](), defaultdict[str, float](float), 0.0
    for done in schedule:
        counts.update(done.issued.kinds)
        cycles[done.issued.kinds[0]] += done.taken
        end = done.end
    if "copy" in counts:
        cycles["copy"] = end - (sum(cycles.values()) - cycles["copy"])
    by_kind = {kind: KindPrice(counts[kind], round(cycles[kind])) for kind in sorted(counts)}
    return StreamPrice(round(end), sum(counts.values()), by_kind)


def _decode(stream: bytes, target: Target) -> Iterator[Any]:
    """Returns the commands of a stream for a target; raises DeviceError."""
    config, words = read_header(stream)
    if config.accelerator != target.accelerator:
        raise DeviceError(f"the command stream is for {config.accelerator}, not {target.accelerator}")
    return config.commands.decode(words)


def _schedule(decoded: Iterable[Any], target: Target, measured: Calibration | None = None) -> Iterator[_Done]:
    """Yields the commands of a stream in order; raises DeviceError."""
    clock, machine = _Clock(), hardware_of(target, measured)
    for c in price_commands(machine, decoded):
        if isinstance(c, Wait):
            clock.wait(clock.work if c.kernel else clock.copies, c.outstanding)
        elif c.kinds == ("copy",):
            clock.issue(clock.copies, c.cycles)
            yield _Done(c, 0.0, clock.end)
        else:
            share = machine.measured.repeated if c.again else len(c.kinds)
            taken = machine.per_command * share + c.cycles
            clock.wait(clock.work, _OUTSTANDING - 1)
            clock.issue(clock.work, taken)
            yield _Done(c, taken, clock.end)


def price_with_ends(stream: bytes, target: Target) -> tuple[StreamPrice, tuple[tuple[int, int], ...]]:
    """Returns the price of a stream, and its cycles with each constant of the calibration at the ends of its range.

    The other constants keep their values. Raises DeviceError, like `price`.
    """
    decoded = list(_decode(stream, target))

    def cycles(at: Calibration) -> int:
        return _by_kind(_schedule(decoded, target, at)).cycles

    ends = tuple((cycles(low), cycles(high)) for low, high in extremes(target))
    return _by_kind(_schedule(decoded, target)), ends


class Ratio(NamedTuple):
    """The ratio of the cycles of two graphs, and how far it may be off by what measurements leave open."""

    value: float
    within: float | None

    @staticmethod
    def of(ours: int, theirs: int, ends: Sequence[tuple[int, int]], their_ends: Sequence[tuple[int, int]]) -> Ratio:
        """Returns the ratio of cycles, with the ends that `price_with_ends` gives; it has no interval without them.

        What each constant changes is added up as independent errors are: the root of the sum of squares.
        """
        found = ours / max(1, theirs)
        changes = [
            max(abs(n / max(1, d) - found) for n, d in zip(*both, strict=True)) for both in zip(ends, their_ends)
        ]
        return Ratio(found, sqrt(sum(c * c for c in changes)) if changes else None)

    def __str__(self) -> str:
        """Returns it as a change, like "-1.2% +- 5.0%", or "-1.2%" without an interval."""
        return f"{self.value - 1:+.1%}" + ("" if self.within is None else f" +- {self.within:.1%}")


@dataclass(slots=True)
class _Clock:
    """The schedule of a command stream, in cycles.

    now         : when the next command is read
    work, copies: when each command of the two queues ends

    A queue does one command after the other.
    """

    now: float = 0.0
    work: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)

    def issue(self, queue: list[float], cycles: float) -> None:
        queue.append(max([self.now, *queue[-1:]]) + cycles)

    def wait(self, queue: list[float], outstanding: int) -> None:
        """Advances `now` until at most `outstanding` commands of a queue are under way."""
        if len(queue) > outstanding:
            self.now = max(self.now, queue[-1 - outstanding])

    @property
    def end(self) -> float:
        return max([0.0, *self.work[-1:], *self.copies[-1:]])
