"""Bytes of memory per choice, from Vela's allocation of the graphs compiled so far.

SRAM is exceeded at some steps of a graph, and what is live at such a step is charged for it.
That is the e-class of a tensor, whichever way it is computed.
It is also the memory inside a single choice.
Examples are the intermediate tensor of a movement in two steps, and weights that are loaded
before their convolution begins.
Flash is the same everywhere in a graph.
Commands are counted as in a compiled graph; choices without one get the mean of similar ones.
Weights are counted by their size, as a share that compiled graphs show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cost_models.protocol import Unit
from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.choice.writer import Written
from eqsat.options.decision import Figures, MemoryLimits
from eqsat.tensor.types import Array
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.compile import Estimate, InSram
from extraction.lagrange import Budget

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
        self._weights = np.array([stored(c.priced) for c in choices.candidates])
        self._seen_weights = np.full(n, np.nan)
        self._commands = np.full(n, np.nan)

    def learn(self, choices: Choices, graphs: Sequence[Compiled]) -> None:
        """Learns from those compiled graphs that are new."""
        for c in (c for c in graphs if c not in self._learnt):
            self._learnt.add(c)
            self._learn(choices, choices.tensor_graph(c.choice), c.estimate)

    def _learn(self, choices: Choices, written: Written, estimate: Estimate) -> None:
        nodes = _nodes(written)
        if self.limits.sram is not None:
            self._learn_sram(choices, nodes, estimate, self.limits.sram)
        commands, weights = dict.fromkeys(nodes.values(), 0.0), dict[int, set[int]]()
        for row in estimate.rows:
            if (n := nodes.get(row.source or row.name)) is not None:
                commands[n] += row.command_bytes
                weights.setdefault(n, set()).add(row.weight_bytes)
        self._commands[list(commands)] = list(commands.values())
        for n, parts in weights.items():
            if any(parts):  # parts of one convolution that read the same weights share them
                self._seen_weights[n] = sum(parts) + _SCALE * choices.candidates[n].priced.result.shape[-1]

    def priced(self, choices: Choices, over: Figures, share: float) -> Choices:
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
        known: Array = self._known_weights() + self._known_commands(choices)
        return np.pad(known, (0, choices.graph.n_nodes - len(known)))

    def _learn_sram(self, choices: Choices, nodes: Mapping[str, int], estimate: Estimate, limit: int) -> None:
        """Counts what is live at each step that exceeds the limit: the bytes that the removal of a node would gain."""
        for step in sorted({t.first for t in estimate.tensors}):
            live = [t for t in estimate.tensors if t.first <= step <= t.last]
            over = max(t.end for t in live) - limit
            if over > 0:
                self.sram = np.maximum(self.sram, _live(choices, nodes, estimate, live, over))

    def _known_weights(self) -> Array:
        """Returns the bytes of weights of every candidate, as compiled or as the same share of their size."""
        seen = ~np.isnan(self._seen_weights)
        share = self._seen_weights[seen].sum() / self._weights[seen].sum() if self._weights[seen].any() else 1.0
        return np.where(seen, self._seen_weights, share * self._weights)

    def _known_commands(self, choices: Choices) -> Array:
        """Returns the bytes of commands of every candidate, as compiled or estimated.

        The estimate is the mean per step of candidates with the same first operator.
        """
        kinds = [c.steps[0][0] if c.steps else c.enode.op for c in choices.candidates]
        steps = np.array([max(1, len(c.steps)) for c in choices.candidates])
        seen = ~np.isnan(self._commands)
        by_kind: dict[str, list[float]] = {}
        for n in np.flatnonzero(seen):
            by_kind.setdefault(kinds[n], []).append(self._commands[n] / steps[n])
        mean = {kind: float(np.mean(values)) for kind, values in by_kind.items()}
        guess = np.array([mean.get(kind, 0.0) for kind in kinds]) * steps
        return np.where(seen, self._commands, guess)


def _nodes(written: Written) -> dict[str, int]:
    """Returns {name of a tensor of the graph: its choice node}."""
    graph, origin = written
    return {name: origin[n] for n, name in written_names(graph).items() if n in origin}


def stored(unit: Unit) -> float:
    """Returns the bytes of a unit's constants before Vela encodes weights, with a convolution's scales."""
    scales = _SCALE * unit.result.shape[-1] if unit.op in _CONVOLUTIONS else 0
    return float(scales + sum(c.data.nbytes for c in unit.constants[:2] if c is not None))


def _live(choices: Choices, nodes: Mapping[str, int], estimate: Estimate, live: Sequence[InSram], over: int) -> Array:
    """Returns the bytes that each choice node has among tensors in SRAM.

    nodes: {name of a tensor of the graph: its choice node}.
    over: bytes, the most that a tensor counts.
    """
    weights = np.zeros(choices.graph.n_nodes)
    for tensor in live:
        if (n := _node(tensor, nodes, estimate)) is not None:
            charged = _of_value(choices, n) if tensor.name in nodes else [n]
            weights[charged] = np.maximum(weights[charged], min(over, tensor.end - tensor.address))
    return weights


def _node(tensor: InSram, nodes: Mapping[str, int], estimate: Estimate) -> int | None:
    """Returns the choice node of a tensor in SRAM, None if it is unknown.

    Vela names tensors of its own after one of the graph: "n12_int32", "n12/Transpose".
    A buffer of weights belongs to the operator that reads it.
    """
    row = estimate.read_by(tensor)
    name = row.source or "" if row else tensor.name
    return nodes.get(name, nodes.get(re.split(r"[_/]", name)[0]))


def _of_value(choices: Choices, n: int) -> list[int]:
    """Returns every candidate that computes the value which a choice node makes or views."""
    candidate = choices.candidates[n]
    if candidate.is_view:
        return [m for m, c in enumerate(choices.candidates) if c.cls == candidate.operands[0] and not c.is_view]
    return [m for m in choices.graph.class_nodes(candidate.cls) if not choices.candidates[m].is_view]
