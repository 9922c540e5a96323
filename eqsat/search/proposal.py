"""What a proposal is: a generator that yields questions and is sent the state after each.

It knows no pool, clock, budget or log; the loop (`loop.py`) has them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from eqsat.choice.compiled import Candidate
from eqsat.options.decision import Decision
from eqsat.search.state import State


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
