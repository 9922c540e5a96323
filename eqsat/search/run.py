"""A run: everything that one optimization knew, for explanations and for experiments without ExecuTorch.

run = eqsat.optimize_tosa(tosa, target).run           # or: eqsat.runs.load("run")
run.extract("asp").cost                               # extraction on the priced choice graph
run.price("package.module:MyModel").extract("asp")    # the same e-graph under other prices
run.tensor_graph(run.extract("asp").choice)           # a TensorGraph; eqsat.tosa.dumps writes it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cost_models
from cost_models.cache import PriceCache
from cost_models.protocol import CostModel
from eqsat.choice.choice import Choices, build
from eqsat.ground.versions import versions
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.table import Row
from extraction import Extraction, check, extract

#: Packages whose versions a run records.
_PACKAGES = ("eqsat", "egglog", "ethos-u-vela", "executorch", "torch", "numpy", "tosa-tools")


@dataclass(frozen=True, slots=True)
class Run:
    """One optimization of one graph.

    graphs: flatbuffers "explicit", "chosen", "stock" if there was one, and the Pareto set.
    The Pareto set of cycles and memory is "point-0" (the fastest), "point-1" and so on.
    chosen: the graph that won, "eqsat", "stock" or "explicit", the latter two also in another order.
    choices: the e-graph with its prices at the last extraction.
    choice: {class: choice node} of eqsat's best candidate.
    rules: names of the rules with which the e-graph was saturated.
    options, result: JSON objects.
    tables: rows of Vela's table by graph.
    versions: versions by package.
    """

    name: str
    target: Target
    graphs: Mapping[str, bytes]
    chosen: str
    choices: Choices
    choice: Mapping[int, int]
    rules: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=lambda: versions(_PACKAGES))

    @property
    def source(self) -> TensorGraph:
        """The graph with explicit layout, from which the e-graph was saturated."""
        return self.choices.frozen.source

    def extract(self, method: str = "portfolio", *, time_limit: float = 10.0, seed: int = 0) -> Extraction:
        """Returns an extraction on the run's prices. time_limit: seconds. Raises ExtractionError."""
        return extract(self.choices.graph, method, time_limit=time_limit, seed=seed)

    def cost(self, choice: Mapping[int, int] | None = None) -> float:
        """Returns the cycles of a choice (None: the run's own) by the run's prices. Raises InvalidExtraction."""
        return check(self.choices.graph, dict(self.choice if choice is None else choice))

    def price(self, cost_model: str | CostModel, cache: Path | None = None) -> Run:
        """Returns a run with the same e-graph under the prices of another cost model, and without a choice.

        cost_model: a model, or a name as in `Options.cost_model`, whose model gets Vela workers.
        cache: place of the store of prices.
        Raises ValueError for an unknown name, and WorkerError.
        """
        if not isinstance(cost_model, str):
            return self._with_prices(cost_model, type(cost_model).__name__)
        make, prices = cost_models.find(cost_model), PriceCache(cache)
        try:
            with Pool() as pool:
                return self._with_prices(make(self.target, pool, prices), cost_model)
        finally:
            prices.close()

    def _with_prices(self, model: CostModel, name: str) -> Run:
        choices = build(self.choices.frozen, model)
        return replace(self, choices=choices, choice={}, options={**self.options, "cost_model": name})

    def tensor_graph(self, choice: Mapping[int, int] | None = None) -> TensorGraph:
        """Returns the graph of a choice (None: the run's own)."""
        return self.choices.tensor_graph(self.choice if choice is None else choice)[0]
