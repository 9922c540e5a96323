"""What a proposal is: a generator that yields questions and is sent the state after each.

It knows no pool, clock, budget or log; the loop (`loop.py`) has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqsat.choice.compiled import Candidate
from eqsat.options.decision import Decision
from eqsat.options.effort import Effort
from eqsat.search.state import State


class Ask(NamedTuple):
    """Candidates that a proposal needs now, and those that it will need if it goes on as it usually does."""

    now: Sequence[Candidate]
    likely: Iterable[Candidate] = ()


#: The generator of a proposal.
Asking = Generator[Ask, State, None]
Proposal = Callable[[State], Generator[Ask, State, object]]


@dataclass(frozen=True, slots=True)
class Step:
    """A proposal that sets out from single graphs.

    most: compilations for each graph from which it sets out, by effort.
    aims: the decisions by which graphs have to be better, one after the other.
    """

    propose: Proposal
    most: Callable[[Effort], float] = lambda effort: math.inf
    aims: Callable[[State], Sequence[Decision]] = lambda state: state.decision.aims
