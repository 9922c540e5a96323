"""Prices on memory, from Vela's allocation of the graphs compiled so far.

SRAM is exceeded at some steps of a graph, and everything live at such a step is charged for it.
That is the e-class of a tensor, whichever way it is computed.
It is also the memory inside a single choice.
Examples are the intermediate tensor of a movement in two steps, and weights that are loaded
before their convolution begins.
Flash is the same everywhere in a graph.
Commands are counted as in a compiled graph; choices without one get the mean of similar ones.
Weights are counted by their entropy (`cost_models/weights.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cost_models.machine import Machine, machine_of
from cost_models.protocol import Unit
from cost_models.weights import encoded
from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.choice.writer import Written
from eqsat.options.decision import MemoryLimits
from eqsat.target import Target
from eqsat.tensor.types import Array
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.compile import Estimate, InSram
from extraction.within import Budget

#: Operators whose weights Vela encodes.
_CONVOLUTIONS = ("conv2d", "depthwise_conv2d", "transpose_conv2d")
#: Bytes of the bias and the scale of one output channel.
_SCALE = 10


class Rates(NamedTuple):
    """Prices of memory, in cycles per byte."""

    sram: float
    flash: float


class MemoryPrices:
    """The bytes that each choice node is charged for."""

    def __init__(self, choices: Choices, target: Target) -> None:
        n, machine = len(choices.candidates), machine_of(target)
        self._sram = np.zeros(n)
        # choice nodes that are live where SRAM is exceeded most, per graph
        self._shortages: list[frozenset[int]] = []
        self._weights = np.array([sum(stored(machine, u) for u in c.units) for c in choices.candidates])
        self._seen_weights = np.full(n, np.nan)
        self._commands = np.full(n, np.nan)

    def learn(self, choices: Choices, written: Written, estimate: Estimate, limits: MemoryLimits) -> None:
        """Learns from a compiled graph.

        limits: the memory that a graph may need.
        """
        nodes = _nodes(written)
        if limits.sram is not None:
            self._learn_sram(choices, nodes, estimate, limits.sram)
        commands, weights = dict.fromkeys(nodes.values(), 0.0), dict[int, set[int]]()
        for row in estimate.rows:
            if (n := nodes.get(row.source or row.name)) is not None:
                commands[n] += row.command_bytes
                weights.setdefault(n, set()).add(row.weight_bytes)
        self._commands[list(commands)] = list(commands.values())
        for n, parts in weights.items():
            if any(parts):  # parts of one convolution that read the same weights share them
                self._seen_weights[n] = sum(parts) + _SCALE * choices.candidates[n].priced.result.shape[-1]

    def charged(self, choices: Choices, rates: Rates) -> Choices:
        """Returns the choices with memory in their prices."""
        cost = choices.graph.cost.copy()
        extra = rates.sram * self._sram
        if rates.flash:
            extra += rates.flash * self.flash(choices)
        cost[: len(extra)] += extra
        return replace(choices, graph=replace(choices.graph, cost=cost))

    def flash(self, choices: Choices) -> Array:
        """Returns the bytes of commands and weights of every candidate."""
        out: Array = self._weights + self._known_commands(choices)
        return out

    def budgets(self, choices: Choices, near: Compiled, limits: MemoryLimits) -> list[Budget]:
        """Returns the budgets of a choice.

        near: a compiled graph, from whose flash the budget of flash is counted.
        A budget per shortage of SRAM excludes choices that contain all nodes which were live there.
        Nodes that `near` has, too, do not count.
        """
        apart = (together - set(near.choice.values()) for together in self._shortages)
        out = [Budget(_indicator(sorted(nodes), choices), len(nodes) - 1.0) for nodes in apart if nodes]
        if limits.flash is not None:
            flash = _padded(self._known_weights() + self._known_commands(choices), choices)
            out.append(
                Budget(flash, limits.flash - near.figures.flash + float(flash[list(near.choice.values())].sum()))
            )
        return out

    def _learn_sram(self, choices: Choices, nodes: Mapping[str, int], estimate: Estimate, limit: int) -> None:
        """Charges the nodes live at each step that exceeds the limit of SRAM.

        Each is charged the bytes that its removal would gain.
        """
        worst, there = 0, frozenset[int]()
        for step in sorted({t.first for t in estimate.tensors}):
            live = [t for t in estimate.tensors if t.first <= step <= t.last]
            over = max(t.end for t in live) - limit
            if over <= 0:
                continue
            known = [(t, n) for t in live if (n := _node(t, nodes, estimate)) is not None]
            for tensor, n in known:
                charged = _of_value(choices, n) if tensor.name in nodes else [n]
                self._sram[charged] = np.maximum(self._sram[charged], min(over, tensor.end - tensor.address))
            if over > worst:
                worst, there = over, frozenset(n for _, n in known)
        if there:
            self._shortages.append(there)

    def _known_weights(self) -> Array:
        """Returns the bytes of weights of every candidate, as compiled or by their entropy.

        Estimates by entropy are scaled, since they are off by about the same share everywhere.
        """
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


def stored(machine: Machine, unit: Unit) -> float:
    """Returns the bytes of a unit's constants as Vela stores them, estimated before compilation."""
    if unit.op == "pad":
        return _appended(unit)
    known = [c for c in unit.constants if c is not None]
    if unit.op not in _CONVOLUTIONS or len(unit.constants) < 2 or unit.constants[1] is None:
        return float(sum(c.data.nbytes for c in known))
    kind = "depthwise" if unit.op == "depthwise_conv2d" else "conv"
    weights = min(encoded(machine, unit, kind, part_kernel) for part_kernel in (False, True))
    return weights + _SCALE * unit.result.shape[-1]


def _appended(pad: Unit) -> float:
    """Returns the bytes of the constant that a PAD copies from: its largest appended piece.

    It was measured on all families with Vela 5.2.
    """
    pads = dict(pad.steps[0][1])["pads"]
    longest = max((max(pads[2 * axis : 2 * axis + 2]) / n for axis, n in enumerate(pad.result.shape)), default=0.0)
    return longest * pad.result.bytes


def _padded(of_candidates: Array, choices: Choices) -> Array:
    """Returns the values for all choice nodes; those of views are 0."""
    return np.pad(of_candidates, (0, choices.graph.n_nodes - len(of_candidates)))


def _indicator(nodes: Sequence[int], choices: Choices) -> Array:
    out = np.zeros(choices.graph.n_nodes)
    out[nodes] = 1.0
    return out


def _nodes(written: Written) -> dict[str, int]:
    """Returns {name of a tensor of the graph: its choice node}."""
    graph, origin = written
    return {name: origin[n] for n, name in written_names(graph).items() if n in origin}


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
