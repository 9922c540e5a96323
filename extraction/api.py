"""`extract`: one entry point for every extractor, built-in or from another package.

Another package adds an extractor by an entry point in the group `extraction.extractors`.
The entry point's name is the method, its object an `Extractor` (`protocol`).
An extractor outside of a package is named `module:Name` or `file.py:Name` (`registry`).
"""

from __future__ import annotations

from eqsat.ground.registry import Registry
from extraction.check import Choice
from extraction.graph import ChoiceGraph
from extraction.protocol import Extraction, Extractor

#: The built-in extractors, one file each.
BUILT_IN = {name: f"extraction.{name}:extract" for name in ("portfolio", "dag_greedy", "tree_greedy", "asp")}
#: Finds extractors by name.
EXTRACTORS = Registry("extractor", "extraction.extractors", BUILT_IN)


def available() -> dict[str, str]:
    """Returns {method name: `module:Name` of its extractor}; built-in names win over entry points."""
    return EXTRACTORS.available()


def find(method: str) -> Extractor:
    """Returns the extractor called `method`: a name of `available`, `module:Name` or `file.py:Name`.

    Raises InputError if there is none or it takes other arguments, PluginError if its import fails.
    """
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
    """Returns the cheapest choice that the extractor `method` (see `find`) finds.

    time_limit: seconds.
    seed: decides all random steps.
    warm_start: a choice to improve on.
    Raises Infeasible if it is proved that there is no choice, InputError for an unknown method.
    """
    if isinstance(warm_start, Extraction):
        warm_start = warm_start.choice
    return find(method)(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)
