"""Values in stripes of rows or channels (`eqsat/tensor/stripes.py`), where SRAM is short.

Where SRAM peaks, the values of a region are then live only a few rows or channels at a time.
Regions are added one by one, as long as that makes the graph better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from eqsat.choice.compiled import Candidate, Compiled, node_of
from eqsat.options.decision import Decision, Figures
from eqsat.options.options import CYCLES, PARETO, SRAM
from eqsat.search.proposal import Ask, Asking, State
from eqsat.tensor.stripes import Region, cuts, find_needed, is_of_channels, write_stripes
from eqsat.tensor.types import Array, Shape
from eqsat.vela.table import InSram, get_occupied, in_use

#: Numbers of stripes that are tried.
_PARTS = (2, 3, 4, 6, 8, 12, 16)
#: Fewest rows of a stripe.
_FEWEST_ROWS = 2
#: Stripes of channels begin at multiples of as many: Vela's bricks have 16 channels.
_BRICK = 16
#: Most targets after the peak, and begins before it, that are tried.
#: Further away, stripes overlap in most of their rows.
_MOST = 32
#: Highest ratio of the cycles of a region in stripes to those without.
_MOST_WORK = 2.0
#: Cycles of each further operator besides its share of the work, about Vela's for small operators.
#: The compiled plans correct it.
_FIXED = 300


class Plan(NamedTuple):
    """A region in stripes between `ends`, with its expected figures and excess (`Plans`)."""

    region: Region
    ends: tuple[int, ...]
    expected: Figures
    excess: float


class Plans:
    """The plans for a graph (`start`), from Vela's allocation of it.

    excess: how far SRAM in use exceeds the limit, as a share of it, summed over the times when it does.
    So a plan counts as better even if as much SRAM is in use at another time.
    """

    def __init__(self, start: Compiled, limit: int | None) -> None:
        """limit: bytes of SRAM that a result may need; None: any number."""
        self.start, self._graph, estimate = start, start.graph, start.estimate
        self._readers = self._graph.readers()
        numbers = start.nodes
        # a node's own tensor follows Vela's copies of it, so that bytes that they share are its
        tensors = sorted(estimate.tensors, key=lambda t: t.name in numbers)
        self._tensors = {numbers[t.name]: t for t in tensors if t.name in numbers}
        self._occupied: dict[int | None, list[tuple[InSram, Array]]] = {}
        shares = get_occupied(tensors)
        for t, own in zip(tensors, shares):
            self._occupied.setdefault(node_of(t.name, numbers), []).append((t, own))
        self._operators = [(r, numbers.get(r.name, -1)) for r in estimate.operators]
        self._live: list[int] = in_use(tensors, shares).tolist()
        self._peak = max(self._live)
        # between the bytes in use at the peak there may be gaps
        self._limit = None if limit is None else max(1.0, limit * self._peak / max(1, start.figures.sram))
        self.excess = self._excess(self._live)

    def _excess(self, live: Iterable[int]) -> float:
        """Returns the excess of bytes that are in SRAM tick by tick."""
        if (limit := self._limit) is None:
            return 0.0
        times = groupby(live, key=lambda size: size > limit)
        return sum((max(sizes) / limit - 1 for exceeds, sizes in times if exceeds), 0.0)

    def __iter__(self) -> Iterator[Plan]:
        """Yields the plans that are expected to need less SRAM than the graph does, or to have less excess."""
        if self._peak:
            for region, begin in self._regions(self._live.index(self._peak)):
                yield from self._in_parts(region, begin)

    def _regions(self, peak: int) -> Iterator[tuple[Region, int]]:
        """Yields the regions around the tick of the peak, each with the tick at which it begins."""
        computed = sorted((t.first, n) for n, t in self._tensors.items() if self._graph.nodes[n].inputs)
        ticks = sorted({first for first, _ in computed})
        behind = [(first, n) for first, n in computed if first >= peak - 1]
        for last, target in behind[:_MOST]:
            shape = self._graph.nodes[target].shape
            for axis in (k for k, size in enumerate(shape) if size >= 2 * _fewest(shape, k)):
                before: tuple[int, ...] = ()
                for begin in [t for t in reversed(ticks) if t <= min(peak, last)][:_MOST]:
                    within = Region(target, self._find_between(target, begin), axis)
                    divided = find_needed(self._graph, within, 0, _fewest(shape, axis))
                    if divided is None:
                        break
                    region = replace(within, inner=tuple(sorted(divided)))
                    if region.inner != before and self._is_closed(region):
                        yield region, begin
                    before = region.inner

    def _find_between(self, target: int, begin: int) -> tuple[int, ...]:
        """Returns the nodes behind a value, up to tensors that exist before a tick, and views of them."""
        found, stack = {target}, [target]
        while stack:
            for i in self._graph.nodes[stack.pop()].inputs:
                stored = self._find_stored(i)
                whole = stored in self._tensors and self._tensors[stored].first < begin
                if i not in found and not whole and self._graph.nodes[stored].inputs:
                    found.add(i)
                    stack.append(i)
        return tuple(sorted(found))

    def _find_stored(self, n: int) -> int:
        """Returns the value of whose tensor a RESHAPE without one is a view, or the value itself."""
        while n not in self._tensors and self._graph.nodes[n].op == "reshape":
            (n,) = self._graph.nodes[n].inputs
        return n

    def _is_closed(self, region: Region) -> bool:
        """Whether no node outside reads a value inside, except for the target."""
        inner = frozenset(region.inner)
        within = (n for n in region.inner if n != region.target)
        return all(n not in self._graph.outputs and inner.issuperset(self._readers[n]) for n in within)

    def _in_parts(self, region: Region, begin: int) -> Iterator[Plan]:
        shape = self._graph.nodes[region.target].shape
        size, fewest = shape[region.axis], _fewest(shape, region.axis)
        for parts in (p for p in _PARTS if p * fewest <= size):
            ends = cuts(size, parts, fewest if is_of_channels(shape, region.axis) else 1)
            first = ends[parts // 2]
            rows = find_needed(self._graph, region, first, min(size, first - (-size // parts)))
            if rows is None:
                return
            share = {n: r.size / self._graph.nodes[n].shape[r.axis] for n, r in rows.items()}
            within, end = self._within(region, begin, share), self._tensors[region.target].first + 1
            live = [*self._live[:begin], within, *self._live[end + 1 :]]
            most, excess = max(live), self._excess(live)
            if (most, excess) < (self._peak, self.excess):
                repeated = {n for n, r in rows.items() if not is_of_channels(self._graph.nodes[n].shape, r.axis)}
                figures = self._figures(share, repeated, parts, most / self._peak)
                if figures is not None:
                    yield Plan(region, tuple(ends), figures, excess)

    def _within(self, region: Region, begin: int, share: Mapping[int, float]) -> int:
        """Returns the peak bytes in SRAM while a region is computed, with its operands and its target as a whole."""
        end = self._tensors[region.target].first + 1
        live = np.array(self._live[begin : end + 1], np.float64)
        whole = {self._find_stored(i) for n in region.inner for i in self._graph.nodes[n].inputs if i not in share}
        for n in (share.keys() - whole - {region.target}) & self._tensors.keys():
            for tensor, own in self._occupied[n]:
                _add(live, begin, tensor, (share[n] - 1) * own)
        for n in (whole | {region.target}) & self._tensors.keys():
            tensor, own = self._occupied[n][-1]
            _add(live, begin, tensor, -own)
            since = begin if n == region.target else max(tensor.first, begin)
            live[since - begin :] += tensor.end - tensor.address
        return int(live.max())

    def _figures(
        self, share: Mapping[int, float], repeated: Collection[int], parts: int, sram: float
    ) -> Figures | None:
        """Returns the expected figures of a plan, None if it takes too many cycles.

        share: {node: the share of it that a stripe computes}. repeated: the nodes that read all weights in each stripe.
        """
        inner = [(row, n) for row, n in self._operators if n in share]
        before, after, rate = sum(row.priced for row, _ in inner), 0.0, self.start.estimate.rates.weights
        for row, n in inner:
            # the first and the last stripe have one neighbour each
            times = parts * share[n] - max(0.0, share[n] - 1 / parts)
            weights = row.weight_bytes / rate * (parts if n in repeated else 1) if rate else 0.0
            after += max(row.priced * times, weights) + _FIXED * (parts - 1)
        if after > _MOST_WORK * before:
            return None
        figures, more = self.start.figures, int(after) - before
        commands = (parts - 1) * sum(row.command_bytes for row, _ in inner)
        return Figures(
            figures.cycles + more, int(figures.sram * sram), figures.flash + commands, figures.vela_total + more
        )


def _fewest(shape: Shape, axis: int) -> int:
    """Returns the fewest rows or channels of a stripe."""
    return _BRICK if is_of_channels(shape, axis) else _FEWEST_ROWS


def _add(live: Array, begin: int, tensor: InSram, size: Array) -> None:
    """Adds the bytes of a tensor at each of its steps to those in SRAM at the steps from `begin` on."""
    since = max(tensor.first, begin)
    until = max(since, min(tensor.last + 1, begin + len(live)))
    live[since - begin : until - begin] += size[since - tensor.first : until - tensor.first]


#: Plans in a row that are no better than the best one, after which no more are compiled.
_MISSES = 3


def stripes(state: State) -> Asking:
    """Asks for plans in the order of their expected figures, if their cycles may beat the best graph of all."""
    start, decision = state.origin, state.decision
    if not _is_short(start, decision):
        return
    answer = min((c for c in state.graphs if not c.settings), key=decision.rank_of).figures
    first: Plans | None = Plans(start, decision.limits.sram)
    while first is not None:
        start, better, misses = first.start, None, 0
        plans = [p for p in first if decision.may_beat(p.expected, answer)]
        plans.sort(key=lambda p: _rank(decision, p.expected, p.excess))
        least = _rank(decision, start.figures, first.excess)
        for k, plan in enumerate(plans):
            if misses == _MISSES or _rank(decision, plan.expected, plan.excess) >= least:
                break
            likely = (_in_stripes(start, p) for p in plans[k + 1 :])  # noqa: B023
            state = yield Ask([_in_stripes(start, plan)], likely)
            (tried,) = state.results
            misses += 1
            if tried is not None:
                found = Plans(tried, decision.limits.sram)
                rank = _rank(decision, tried.figures, found.excess)
                if rank < least and decision.may_beat(tried.figures, answer):
                    better, least, misses = found, rank, 0
        first = better


def choose_aims(state: State) -> Sequence[Decision]:
    """Returns the decisions by which graphs with stripes have to be better, one after the other.

    For the Pareto set these are less SRAM at no more cycles than stock's graph, and at any cycles.
    """
    decision = state.decision
    if decision.objective != PARETO:
        return decision.aims
    less, given = replace(decision, objective=SRAM, product=None), {c.name: c for c in state.graphs}
    before, anyhow = given.get("stock") or given.get("explicit"), replace(less, vela_total=None)
    at_most = [replace(less, cycles=before.figures.cycles)] if before else []
    return [aim for one in (*at_most, anyhow) for aim in one.aims]


def _is_short(start: Compiled, decision: Decision) -> bool:
    """Whether less SRAM would make a graph better."""
    limit = decision.limits.sram
    return decision.objective != CYCLES or limit is not None and start.figures.sram > limit


def _rank(decision: Decision, figures: Figures, excess: float) -> tuple[float, ...]:
    """Returns the key by which graphs are sorted: as results, but of equal peaks the one with less excess first."""
    beyond, is_dearer, *others = decision.rank(figures)
    return beyond, excess, is_dearer, *others


def _in_stripes(start: Compiled, plan: Plan) -> Candidate:
    """Returns the graph of a plan."""
    graph, source = write_stripes(start.graph, plan.region, plan.ends)
    return replace(start.rewrite(graph, "stripes", source), predicted=float(plan.expected.cycles))
