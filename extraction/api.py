"""`extract`: one door to every extractor, the built-in ones and those of others.

Another package adds an extractor by an entry point in the group `extraction.extractors`: its name is the method, its
object an `Extractor` (`protocol`). One that is in no package is named `module:Name` or `file.py:Name` (`registry`).
"""

from __future__ import annotations

from eqsat.ground.registry import Registry

from .check import Choice
from .graph import ChoiceGraph
from .protocol import Extractor
from .result import Extraction

#: The built-in extractors, one file each.
BUILT_IN = {
    name: f"extraction.{name}:extract"
    for name in ("portfolio", "dag_greedy", "tree_greedy", "ilp", "asp", "cpsat", "lns")
}
EXTRACTORS = Registry("extractor", "extraction.extractors", BUILT_IN)


def available() -> dict[str, str]:
    """Method name -> `module:Name` of its extractor. Built-in names win over entry points."""
    return EXTRACTORS.available()


def find(method: str) -> Extractor:
    """The extractor of a method's name, `module:Name` or `file.py:Name`. Raises InputError, PluginError."""
    found: Extractor = EXTRACTORS.find_callable(
        method, "graph", time_limit="seconds", seed="number", warm_start="choice or None"
    )
    return found


def extract(
    graph: ChoiceGraph,
    method: str = "portfolio",
    time_limit: float = 10.0,
    seed: int = 0,
    warm_start: Choice | Extraction | None = None,
) -> Extraction:
    """The cheapest choice that `method`, see `find`, finds within `time_limit` seconds.

    `warm_start` is a choice to improve on. Raises Infeasible if it is proved that there is no
    choice, NoChoiceFound if time ran out before one was found (only with forbidden pairs), and
    InputError for an unknown method.
    """
    if isinstance(warm_start, Extraction):
        warm_start = warm_start.choice
    return find(method)(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)
