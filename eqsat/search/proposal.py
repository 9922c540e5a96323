"""Proposals: generators that yield candidates to compile (`Ask`), and are sent the state of the search after each.

A proposal knows no pool, clock, budget or log; the loop (`loop.py`) has them, and makes a new state in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from eqsat.choice.choice import Choices, correct
from eqsat.choice.compiled import Candidate, Compiled, Key
from eqsat.device.binary import binary_of
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.run import Device
from eqsat.egraph.encoding import Frozen
from eqsat.options.decision import Decision
from eqsat.options.options import CYCLES, SRAM, Options
from eqsat.target import Target
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.patterns import activated_turns
from extraction import check

#: Cycles of the fastest graph of a kind, as a multiple of the fastest one that fits, above which none of the kind is
#: changed further. The most that another order saved so far is 10%.
_MOST_BEHIND = 1.15


@dataclass(frozen=True, slots=True)
class State:
    """What proposals are sent.

    with_settings: whether the result may have settings of Vela.
    decision: the rule by which graphs are better.
    recalled: "remembered" or "respelled" if the result is that of an earlier search, else "".
    frozen: the e-graph, None before there is one.
    made_of: {node of the e-graph's source: node of the reference} if they differ, else None.
    choices: the choices of the e-graph with their prices so far, None before there are any.
    prices_rose: whether the last results changed prices so that another extraction may give another choice.
    compiled: all that was asked for, in order, by `Candidate.key`; None where Vela refuses it.
    results: what the last `Ask` gave, in its order; None where Vela refuses it.
    start, best: the graph that a proposal sets out from, and the best one since then.
    """

    target: Target
    options: Options
    with_settings: bool = False
    decision: Decision = Decision()
    recalled: str = ""
    frozen: Frozen | None = None
    made_of: Mapping[int, int] | None = None
    choices: Choices | None = None
    prices_rose: bool = False
    compiled: Mapping[Key, Compiled | None] = field(default_factory=dict)
    results: tuple[Compiled | None, ...] = ()
    start: Compiled | None = None
    best: Compiled | None = None

    @property
    def graphs(self) -> list[Compiled]:
        """All compiled graphs, in the order in which they were found."""
        return [c for c in self.compiled.values() if c]

    @property
    def extracted(self) -> list[Compiled]:
        """The compiled graphs that are written as they were chosen from the e-graph, without settings of Vela."""
        return [c for c in self.graphs if c.is_chosen]

    @property
    def priced(self) -> Choices:
        """The choices of the e-graph, for proposals that come after them."""
        assert self.choices is not None, "nothing is chosen before choices have prices"
        return self.choices

    @property
    def origin(self) -> Compiled:
        """The graph from which a proposal sets out, for those that do (`Step`)."""
        assert self.start is not None, "a step sets out from a graph"
        return self.start

    def cost(self, choice: Mapping[int, int]) -> float:
        """Returns the cycles of a choice at the present prices."""
        return check(self.priced.graph, choice)

    @property
    def front(self) -> list[Compiled]:
        """All compiled graphs, the best first."""
        return sorted(self.graphs, key=self.decision.rank_of)

    def with_graphs(self, found: Iterable[Compiled]) -> State:
        """Returns the state with graphs before those that it has, as those count first among equals."""
        return replace(self, compiled={**{c.key: c for c in found}, **self.compiled})

    def setting_out(self, start: Compiled | None, decision: Decision | None = None) -> State:
        """Returns the state in which a proposal sets out from a graph, by another decision if that is given."""
        return replace(self, start=start, best=start, results=(), decision=decision or self.decision)

    def after(self, asked: Sequence[Candidate], new: Mapping[Key, Compiled | None]) -> State:
        """Returns the state after what was asked for was compiled; new graphs of choices correct the prices."""
        choices, rose, compiled = self.choices, False, {**self.compiled, **new}
        for c in new.values():
            if choices and c and c.is_chosen:
                choices, differs = correct(choices, c.graph, c.made_for, c.estimate.rows, _reads_too_early(c))
                rose = rose or differs
        results = tuple(compiled[c.key] for c in asked)
        known = [c for c in (self.best, *results) if c]
        best = min(known, key=self.decision.rank_of, default=None)
        return replace(self, compiled=compiled, choices=choices, prices_rose=rose, results=results, best=best)

    def make_candidate(self, choice: Mapping[int, int], by: str, gap: float = math.inf) -> Candidate:
        """Returns the candidate of a choice.

        by: the name of the extractor. gap: the proved relative gap, inf without a bound.
        """
        graph, made_for = self.priced.tensor_graph(choice)
        known, cost = gap if math.isfinite(gap) else None, float(self.cost(choice))
        return Candidate("eqsat", graph, dumps(graph), self.choices, choice, made_for, by=by, predicted=cost, gap=known)


def _reads_too_early(c: Compiled) -> bool:
    """Whether an activation is fused into a TRANSPOSE or REVERSE, and the binary breaks a rule of the hardware."""
    if not any(activated_turns(c.graph)):
        return False
    try:
        Device(binary_of(c.estimate.raw))
    except DeviceFault:
        return True
    except DeviceError:  # what the model does not know is no reason to choose otherwise
        return False
    return False


def starting_points(state: State, decision: Decision, among: Callable[[Compiled], bool]) -> list[Compiled]:
    """Returns the best graph of a kind, and up to two faster ones that exceed the limits.

    These are the fastest, and the one with the least product of cycles and 1 + excess.
    Where less SRAM is the objective, faster ones that fit count, too: they have cycles to spend.
    For cycles, returns none if all are slower by far (`_MOST_BEHIND`) than another graph as it was chosen or given.
    """
    kind = [c for c in state.graphs if not c.settings and among(c)]
    if not kind:
        return []
    best, limits = min(kind, key=decision.rank_of), decision.limits
    unchanged = (c for c in state.graphs if not c.is_rewritten and limits.fits(c.figures))
    ahead = min((c.figures.cycles for c in unchanged), default=math.inf)
    if decision.objective == CYCLES and min(c.figures.cycles for c in kind) > _MOST_BEHIND * ahead:
        return []
    faster = [c for c in kind if c.figures.cycles < best.figures.cycles]
    over = [c for c in faster if decision.objective == SRAM or not limits.fits(c.figures)]
    out = [best]
    if over:
        out.append(min(over, key=lambda c: c.figures.cycles * (1 + limits.excess(c.figures))))
        out.append(min(over, key=lambda c: c.figures))
    return list(dict.fromkeys(out))


class Ask(NamedTuple):
    """Candidates that a proposal needs now, and those that it will need if it goes on as it usually does."""

    now: Sequence[Candidate]
    likely: Iterable[Candidate] = ()


#: The generator of a proposal.
Asking = Generator[Ask, State, None]
Proposal = Callable[[State], Generator[Ask, State, object]]


_Part = TypeVar("_Part")


def one_by_one(state: State, parts: Sequence[_Part], make: Callable[[Sequence[_Part]], Candidate]) -> Asking:
    """Asks for a graph with one part after the other; those that make it better stay.

    make: returns the graph with some parts.
    """
    kept = list[_Part]()
    for k, part in enumerate(parts):
        before, ahead = state.best, (make([*kept, following]) for following in parts[k + 1 :])
        state = yield Ask([make([*kept, part])], likely=ahead)
        if state.best is not before:
            kept.append(part)


@dataclass(frozen=True, slots=True)
class Step:
    """A proposal that sets out from single graphs.

    share: of the compilations of an effort, that of each graph from which it sets out.
    aims: the decisions by which graphs have to be better, one after the other.
    """

    propose: Proposal
    share: float
    aims: Callable[[State], Sequence[Decision]] = lambda state: state.decision.aims
