"""Prices on memory: what Vela's allocation of the graphs compiled so far says about choices.

SRAM runs short at some steps of a graph, and what is live then is charged for it: a tensor's e-class, whichever way it
is computed, and what a single choice needs inside (a movement that Vela does in two, weights that are there before the
convolution begins). Flash runs short everywhere: commands as a compiled graph has them, and for choices that no graph
has had yet as many as similar ones take; weights by their entropy (`cost_models/weights.py`).
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

_CONVOLUTIONS = ("conv2d", "depthwise_conv2d", "transpose_conv2d")
#: Bytes of the bias and the scale of a channel.
_SCALE = 10


class Rates(NamedTuple):
    """Cycles that a byte of SRAM and of flash costs."""

    sram: float
    flash: float


class MemoryPrices:
    """Bytes that each choice node of `choices` is charged for."""

    def __init__(self, choices: Choices, target: Target) -> None:
        n, machine = len(choices.candidates), machine_of(target)
        self._sram = np.zeros(n)
        self._shortages: list[frozenset[int]] = []  # of what is live where SRAM runs shortest, in each graph
        self._weights = np.array([sum(stored(machine, u) for u in c.units) for c in choices.candidates])
        self._seen_weights = np.full(n, np.nan)
        self._commands = np.full(n, np.nan)

    def learn(self, choices: Choices, written: Written, estimate: Estimate, limits: MemoryLimits) -> None:
        """From a graph that Vela compiled, and what it may need at most."""
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
            if any(parts):  # pieces of one convolution that read the same weights have them once
                self._seen_weights[n] = sum(parts) + _SCALE * choices.candidates[n].priced.result.shape[-1]

    def charged(self, choices: Choices, rates: Rates) -> Choices:
        """The same choices with memory in their prices."""
        cost = choices.graph.cost.copy()
        extra = rates.sram * self._sram
        if rates.flash:
            extra += rates.flash * self.flash(choices)
        cost[: len(extra)] += extra
        return replace(choices, graph=replace(choices.graph, cost=cost))

    def flash(self, choices: Choices) -> Array:
        """Bytes of commands and weights of every candidate."""
        out: Array = self._weights + self._known_commands(choices)
        return out

    def budgets(self, choices: Choices, near: Compiled, limits: MemoryLimits) -> list[Budget]:
        """What a choice may have of flash, counted from a graph that was compiled; and that it has not all that was in
        SRAM where that ran shortest, besides what that graph has too."""
        apart = (together - set(near.choice.values()) for together in self._shortages)
        out = [Budget(_indicator(sorted(nodes), choices), len(nodes) - 1.0) for nodes in apart if nodes]
        if limits.flash is not None:
            flash = _padded(self._known_weights() + self._known_commands(choices), choices)
            out.append(
                Budget(flash, limits.flash - near.figures.flash + float(flash[list(near.choice.values())].sum()))
            )
        return out

    def _learn_sram(self, choices: Choices, nodes: Mapping[str, int], estimate: Estimate, limit: int) -> None:
        """Charges what is live at each step where SRAM runs short by the bytes that would be gained without it."""
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
        """Bytes of weights of every candidate: as seen, or by their entropy, which is off by about the same share in
        all of them."""
        seen = ~np.isnan(self._seen_weights)
        share = self._seen_weights[seen].sum() / self._weights[seen].sum() if self._weights[seen].any() else 1.0
        return np.where(seen, self._seen_weights, share * self._weights)

    def _known_commands(self, choices: Choices) -> Array:
        """Bytes of commands of every candidate: as seen, or the mean of those that begin with the same operator, per
        step."""
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
    """Bytes of the constants of a unit as Vela stores them, as far as that is known before it is compiled."""
    if unit.op == "pad":
        return _appended(unit)
    known = [c for c in unit.constants if c is not None]
    if unit.op not in _CONVOLUTIONS or len(unit.constants) < 2 or unit.constants[1] is None:
        return float(sum(c.data.nbytes for c in known))
    kind = "depthwise" if unit.op == "depthwise_conv2d" else "conv"
    weights = min(encoded(machine, unit, kind, part_kernel) for part_kernel in (False, True))
    return weights + _SCALE * unit.result.shape[-1]


def _appended(pad: Unit) -> float:
    """Bytes of the constant that a PAD copies from, the largest of the pieces that it appends (measured on all families
    with Vela 5.2)."""
    pads = dict(pad.steps[0][1])["pads"]
    longest = max((max(pads[2 * axis : 2 * axis + 2]) / n for axis, n in enumerate(pad.result.shape)), default=0.0)
    return longest * pad.result.bytes


def _padded(of_candidates: Array, choices: Choices) -> Array:
    """For all choice nodes: those of views need nothing."""
    return np.pad(of_candidates, (0, choices.graph.n_nodes - len(of_candidates)))


def _indicator(nodes: Sequence[int], choices: Choices) -> Array:
    out = np.zeros(choices.graph.n_nodes)
    out[nodes] = 1.0
    return out


def _nodes(written: Written) -> dict[str, int]:
    """{name of a tensor of the graph: the choice node that it is of}."""
    graph, origin = written
    return {name: origin[n] for n, name in written_names(graph).items() if n in origin}


def _node(tensor: InSram, nodes: Mapping[str, int], estimate: Estimate) -> int | None:
    """The choice node that something in SRAM is of. What Vela makes itself it calls after a tensor of the graph:
    "n12_int32", "n12/Transpose"; a buffer of weights is of the operator that reads it."""
    row = estimate.read_by(tensor)
    name = row.source or "" if row else tensor.name
    return nodes.get(name, nodes.get(re.split(r"[_/]", name)[0]))


def _of_value(choices: Choices, n: int) -> list[int]:
    """Every way to compute the value that a choice node makes or views."""
    candidate = choices.candidates[n]
    if candidate.is_view:
        return [m for m, c in enumerate(choices.candidates) if c.cls == candidate.operands[0] and not c.is_view]
    return [m for m in choices.graph.class_nodes(candidate.cls) if not choices.candidates[m].is_view]
