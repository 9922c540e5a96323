"""`extract`: one door to every extractor, the built-in ones and those of other packages.

Another package adds an extractor by an entry point in the group `extraction.extractors`, the name
being the method and the object a function

    extract(graph, *, time_limit, seed, warm_start) -> Extraction
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from .check import Choice
from .errors import ExtractionError
from .graph import ChoiceGraph
from .result import Extraction

ENTRY_POINTS = "extraction.extractors"
BUILT_IN = ("portfolio", "dag_greedy", "tree_greedy", "ilp", "asp", "cpsat", "lns")


def available() -> dict[str, Callable[[], Callable[..., Extraction]]]:
    """Method name -> loader of its function. Built-in names win over entry points."""
    loaders = {e.name: e.load for e in entry_points(group=ENTRY_POINTS)}
    loaders.update({name: _built_in(name) for name in BUILT_IN})
    return loaders


def _built_in(name: str) -> Callable[[], Callable[..., Extraction]]:
    return lambda: import_module(f"{__package__}.{name}").extract


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
