"""Extraction within limits of memory.

It takes place if the fastest graph exceeds the limits, and if less SRAM is wanted.
The graphs compiled so far tell how many bytes a choice takes.
In each round Lagrange steps (`extraction/lagrange.py`) look for the cheapest choice within budgets of these bytes.
Greedy extraction has them in its prices, which rise until a graph fits, and then fall, by smaller and smaller factors.

SRAM is exceeded at some steps of a graph, and what is live at such a step is charged for it.
That is the e-class of a tensor, whichever way it is computed, and the memory inside a single choice, such as weights
that are loaded before their convolution begins.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cost_models.protocol import Unit
from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled, node_of
from eqsat.options.decision import Decision, Figures, MemoryLimits
from eqsat.options.options import CYCLES, SRAM
from eqsat.search.proposal import Ask, Asking, State
from eqsat.tensor.types import Array
from eqsat.vela.compile import Estimate
from extraction import ChoiceGraph, check, dag_greedy
from extraction.lagrange import Budget, steps

#: Operators with weights, and a bias and a scale per output channel.
_CONVOLUTIONS = ("conv2d", "depthwise_conv2d", "transpose_conv2d")
#: Bytes of the bias and the scale of one output channel.
_SCALE = 10


class MemoryUse:
    """The bytes of memory that each choice node takes, as far as compiled graphs show.

    sram: bytes that are live where a graph exceeds the limit.
    """

    def __init__(self, choices: Choices, limits: MemoryLimits) -> None:
        n = len(choices.candidates)
        self.limits = limits
        self.sram = np.zeros(choices.graph.n_nodes)
        self._learnt = set[Compiled]()
        self._weights = np.array([count_constants(c.priced) for c in choices.candidates])
        self._seen_weights = np.full(n, np.nan)
        self._commands = np.full(n, np.nan)

    def learn(self, choices: Choices, graphs: Sequence[Compiled]) -> None:
        """Learns from Vela's tables of those compiled graphs that are new."""
        for c in (c for c in graphs if c not in self._learnt):
            self._learnt.add(c)
            nodes = {tensor: c.made_for[n] for tensor, n in c.nodes.items() if n in c.made_for}
            if self.limits.sram is not None:
                self._learn_sram(choices, nodes, c.estimate, self.limits.sram)
            commands, weights = dict.fromkeys(nodes.values(), 0.0), dict[int, set[int]]()
            for row in c.estimate.rows:
                if (n := nodes.get(row.source or row.name)) is not None:
                    commands[n] += row.command_bytes
                    weights.setdefault(n, set()).add(row.weight_bytes)
            self._commands[list(commands)] = list(commands.values())
            for n, parts in weights.items():
                if any(parts):  # parts of one convolution that read the same weights share them
                    self._seen_weights[n] = sum(parts) + _SCALE * choices.candidates[n].priced.result.shape[-1]

    def price(self, choices: Choices, over: Figures, share: float) -> Choices:
        """Returns the choices with memory in their prices, if a graph exceeds its limit.

        over: the figures of the graph. share: what all of the allowed memory costs, as a share of the graph's cycles.
        """
        extra = np.zeros(choices.graph.n_nodes)
        for bytes_of, used, most in self._memories(choices, over):
            if used > most:
                extra += share * over.cycles / max(1, most) * bytes_of
        return replace(choices, graph=replace(choices.graph, cost=choices.graph.cost + extra))

    def budgets(self, choices: Choices, near: Compiled) -> list[Budget]:
        """Returns the budgets of a choice within the limits, counted from what a compiled graph needs."""
        chosen = list(near.choice.values())
        known = self._memories(choices, near.figures)
        return [Budget(bytes_of, most - used + float(bytes_of[chosen].sum())) for bytes_of, used, most in known]

    def _memories(self, choices: Choices, figures: Figures) -> list[tuple[Array, int, int]]:
        """Returns the bytes of every choice node, of a graph, and of the limit, for each limited memory."""
        every = ((self.sram, figures.sram, self.limits.sram), (self.flash(choices), figures.flash, self.limits.flash))
        return [(bytes_of, used, most) for bytes_of, used, most in every if most is not None]

    def flash(self, choices: Choices) -> Array:
        """Returns the bytes of commands and weights of every choice node; those of views are 0."""
        known: Array = self._estimate_weights() + self._estimate_commands(choices)
        return np.pad(known, (0, choices.graph.n_nodes - len(known)))

    def _learn_sram(self, choices: Choices, nodes: Mapping[str, int], estimate: Estimate, limit: int) -> None:
        """Counts the bytes that the removal of a node would gain at each step that exceeds the limit.

        nodes: {tensor: its choice node}. A buffer of weights belongs to the operator that reads it.
        """
        for step in sorted({t.first for t in estimate.tensors}):
            live = [t for t in estimate.tensors if t.first <= step <= t.last]
            over = max(t.end for t in live) - limit
            for t in live if over > 0 else ():
                row = estimate.read_by(t)
                if (n := node_of(row.source if row else t.name, nodes)) is not None:
                    charged = _of_value(choices, n) if t.name in nodes else [n]
                    self.sram[charged] = np.maximum(self.sram[charged], min(over, t.end - t.address))

    def _estimate_weights(self) -> Array:
        """Returns the bytes of weights of every candidate, as compiled or as the same share of their size."""
        seen = ~np.isnan(self._seen_weights)
        share = self._seen_weights[seen].sum() / self._weights[seen].sum() if self._weights[seen].any() else 1.0
        return np.where(seen, self._seen_weights, share * self._weights)

    def _estimate_commands(self, choices: Choices) -> Array:
        """Returns the bytes of commands of every candidate: as compiled, or the mean per step of the same operator."""
        kinds = [c.steps[0][0] if c.steps else c.enode.op for c in choices.candidates]
        steps = np.array([max(1, len(c.steps)) for c in choices.candidates])
        seen = ~np.isnan(self._commands)
        by_kind: dict[str, list[float]] = {}
        for n in np.flatnonzero(seen):
            by_kind.setdefault(kinds[n], []).append(self._commands[n] / steps[n])
        mean = {kind: float(np.mean(values)) for kind, values in by_kind.items()}
        guess = np.array([mean.get(kind, 0.0) for kind in kinds]) * steps
        return np.where(seen, self._commands, guess)


def count_constants(unit: Unit) -> float:
    """Returns the bytes of a unit's constants before Vela encodes weights, with a convolution's scales."""
    scales = _SCALE * unit.result.shape[-1] if unit.op in _CONVOLUTIONS else 0
    return float(scales + sum(c.data.nbytes for c in unit.constants[:2] if c is not None))


def _of_value(choices: Choices, n: int) -> list[int]:
    """Returns every candidate that computes the value which a choice node makes or views."""
    candidate = choices.candidates[n]
    if candidate.is_view:
        return [m for m, c in enumerate(choices.candidates) if c.cls == candidate.operands[0] and not c.is_view]
    return [m for m in choices.graph.class_nodes(candidate.cls) if not choices.candidates[m].is_view]


#: Names in records: of Lagrange steps, and of extraction with prices on memory.
_LAGRANGE, _PRICED = "lagrange", "dag_greedy with memory"
#: Share of the fastest graph's cycles by which a fitting graph may be slower and is near enough.
_NEAR = 0.01
#: Rounds in a row that come no nearer to the limits, nor are faster within them, after which there are no more.
_FRUITLESS = 3
#: Price of all excess memory at first, as a share of the graph's cycles.
_FIRST = 0.5
#: Factor by which that price rises and falls at first; its root after each turn.
_FACTOR = 6.0
#: Compiled choices from which greedy extraction starts, too.
_STARTS = 2
#: Share of the least SRAM so far at which a search for less SRAM aims.
_STEP = 0.9


def memory(state: State) -> Asking:
    for within in state.decision.wider_aims if state.extracted else ():
        state = yield from _within(state, within)
        if within.objective != CYCLES:
            state = yield from _shrink(state, replace(within, objective=SRAM))


def _shrink(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Asks for graphs with less SRAM than the best so far, a step at a time."""
    best = None
    while (least := min(state.extracted, key=decision.rank_of)) is not best:
        best = least
        limits = replace(decision.limits, sram=int(_STEP * best.figures.sram))
        state = yield from _within(state, replace(decision, limits=limits))
    return state


def _within(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Asks for choices within the limits of a decision, some a round."""
    limits, use = decision.limits, MemoryUse(state.priced, decision.limits)
    share, factor, fitted, fruitless = 0.0, _FACTOR, False, 0
    while fruitless < _FRUITLESS and not _is_done(state, decision):
        use.learn(state.priced, state.extracted)
        before, over = _measure_progress(state, limits), _over(state, limits)
        share = share or _FIRST / limits.excess(over)
        priced = use.price(state.priced, over, share)
        found = {_LAGRANGE: _by_steps(state, limits, use), _PRICED: _greedy(state, priced)}
        state = yield Ask([state.make_candidate(choice, by) for by, some in found.items() for choice in some])
        fits = any(limits.fits(c.figures) for c in state.results if c)
        if fits != fitted:
            factor, fitted = math.sqrt(factor), fits
        share = share / factor if fits else share * factor
        fruitless = fruitless + 1 if _measure_progress(state, limits) >= before else 0
    return state


def _is_done(state: State, decision: Decision) -> bool:
    """Whether a graph is within the limits with few cycles, or for less SRAM with no more than stock's; or all are."""
    graphs = state.extracted
    if all(decision.limits.fits(c.figures) for c in graphs):
        return True
    if decision.objective == SRAM:
        return any(decision.rank_of(c)[0] == 0 for c in graphs)
    return _measure_progress(state, decision.limits)[0] <= (1 + _NEAR) * min(c.figures.cycles for c in graphs)


def _measure_progress(state: State, limits: MemoryLimits) -> tuple[float, float]:
    """Returns the cycles of the fastest graph that fits, then the least excess of all; less is better."""
    figures = [c.figures for c in state.extracted]
    return min((f.cycles for f in figures if limits.fits(f)), default=math.inf), min(map(limits.excess, figures))


def _over(state: State, limits: MemoryLimits) -> Figures:
    """Returns the figures of a graph from which one that fits is searched: fast, with little excess."""
    over = (c.figures for c in state.extracted if not limits.fits(c.figures))
    return min(over, key=lambda f: f.cycles * (1 + limits.excess(f)))


def _by_steps(state: State, limits: MemoryLimits, use: MemoryUse) -> Sequence[Mapping[int, int]]:
    """Returns the cheapest new choice within the budgets that Lagrange steps meet, if any."""
    graphs = state.extracted
    near = min(graphs, key=lambda c: (limits.excess(c.figures), c.figures.cycles))
    budgets, known = use.budgets(state.priced, near), [c.choice for c in graphs]
    starts = dict.fromkeys((min(graphs, key=lambda c: state.cost(c.choice)), near))
    limit, seed = state.options.time_limit, len(known)
    met = steps(state.priced.graph, budgets, [c.choice for c in starts], time_limit=limit, seed=seed)
    within = (choice for choice in met if choice not in known and not any(b.excess(choice) for b in budgets))
    return sorted(within, key=state.cost)[:1]


def _greedy(state: State, priced: Choices) -> Sequence[Mapping[int, int]]:
    """Returns a greedy choice from compiled ones, and the better with views free or as copies, at prices of memory."""

    def cost(choice: Mapping[int, int]) -> float:
        return check(priced.graph, choice)

    def extracted(graph: ChoiceGraph, starts: Sequence[Mapping[int, int]] = ()) -> Mapping[int, int]:
        return dag_greedy.extract(graph, time_limit=state.options.time_limit, restarts=1, starts=starts).choice

    known = sorted((c.choice for c in state.extracted), key=cost)
    bounds = (priced.with_storage(extracted(priced.with_views(copied))) for copied in (False, True) if priced.last)
    return [extracted(priced.graph, known[:_STARTS]), *sorted(bounds, key=cost)[:1]]
