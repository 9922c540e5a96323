"""`extract`: one door to every extractor, the built-in ones and those of other packages.

Another package adds an extractor by an entry point in the group `extraction.extractors`: its name is the method, its object an
`Extractor` (`protocol`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from . import asp, cpsat, dag_greedy, ilp, lns, portfolio, tree_greedy
from .check import Choice
from .errors import ExtractionError
from .graph import ChoiceGraph
from .protocol import Extractor
from .result import Extraction

ENTRY_POINTS = "extraction.extractors"

#: The registry of the built-in extractors, one file each.
BUILT_IN: dict[str, Extractor] = {
    "portfolio": portfolio.extract,
    "dag_greedy": dag_greedy.extract,
    "tree_greedy": tree_greedy.extract,
    "ilp": ilp.extract,
    "asp": asp.extract,
    "cpsat": cpsat.extract,
    "lns": lns.extract,
}


def available() -> dict[str, Callable[[], Extractor]]:
    """Method name -> loader of its extractor. Built-in names win over entry points."""
    loaders: dict[str, Callable[[], Extractor]] = {e.name: e.load for e in entry_points(group=ENTRY_POINTS)}
    return loaders | {name: (lambda found=found: found) for name, found in BUILT_IN.items()}


def extract(
    graph: ChoiceGraph,
    method: str = "portfolio",
    time_limit: float = 10.0,
    seed: int = 0,
    warm_start: Choice | Extraction | None = None,
) -> Extraction:
    """The cheapest choice that `method` finds within `time_limit` seconds.

    `warm_start` is a choice to improve on. Raises Infeasible if it is proved that there is no
    choice, NoChoiceFound if time ran out before one was found (only with forbidden pairs), and
    ExtractionError for an unknown method.
    """
    loaders = available()
    if method not in loaders:
        raise ExtractionError(f"no extractor {method!r}; there are {', '.join(sorted(loaders))}")
    if isinstance(warm_start, Extraction):
        warm_start = warm_start.choice
    return loaders[method]()(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)
