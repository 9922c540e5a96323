"""A run: all that an optimization knew, for explanations and for experiments without ExecuTorch.

run = eqsat.optimize_tosa(tosa, target).run           # or: eqsat.runs.load("run")
run.extract("ilp").cost                               # extraction on the priced choice graph
run.price("package.module:MyModel").extract("ilp")    # the same e-graph under other prices
run.tensor_graph(run.extract("ilp").choice)           # a TensorGraph; eqsat.tosa.dumps writes it
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

_PACKAGES = ("eqsat", "egglog", "ethos-u-vela", "executorch", "torch", "numpy", "tosa-tools")


@dataclass(frozen=True, slots=True)
class Run:
    """One optimization of one graph.

    graphs: .tosa buffers "explicit", "chosen", if there was one, "stock", and the Pareto set of cycles and memory,
    "point-0" (the fastest) and on. choices: the e-graph and its prices as the last extraction saw them; choice: {class:
    choice node} of eqsat's best candidate. chosen: which graph won, "eqsat", "stock" or "explicit", these two also in
    another order.
    rules: names of the identities that the e-graph was saturated with. options, result: as JSON. tables: Vela's rows
    by graph. versions: of the packages that took part.
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
        """Extraction on the run's prices. Raises ExtractionError."""
        return extract(self.choices.graph, method, time_limit=time_limit, seed=seed)

    def cost(self, choice: Mapping[int, int] | None = None) -> float:
        """Cycles of a choice (None: the run's own) by the run's prices. Raises InvalidExtraction."""
        return check(self.choices.graph, dict(self.choice if choice is None else choice))

    def price(self, cost_model: str | CostModel, cache: Path | None = None) -> Run:
        """The same e-graph under another model's prices: a model, or a name as `Options.cost_model` takes it, which
        gets Vela workers.

        The new run has no choice until something is extracted. Raises ValueError for an unknown name, WorkerError.
        """
        if not isinstance(cost_model, str):
            return self._priced(cost_model, type(cost_model).__name__)
        make, prices = cost_models.find(cost_model), PriceCache(cache)
        try:
            with Pool() as pool:
                return self._priced(make(self.target, pool, prices), cost_model)
        finally:
            prices.close()

    def _priced(self, model: CostModel, name: str) -> Run:
        choices = build(self.choices.frozen, model)
        return replace(self, choices=choices, choice={}, options={**self.options, "cost_model": name})

    def tensor_graph(self, choice: Mapping[int, int] | None = None) -> TensorGraph:
        """The graph of a choice (None: the run's own)."""
        return self.choices.tensor_graph(self.choice if choice is None else choice)[0]
