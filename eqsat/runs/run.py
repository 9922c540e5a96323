"""Saved runs: all that an optimization knew, as data, for experiments without ExecuTorch.

    result = eqsat.optimize_tosa(tosa, target)
    result.save("run")                                    # or: eqsat optimize in.tosa ... --save run
    run = eqsat.runs.load("run")
    run.extract("ilp").cost                               # extraction on the priced choice graph
    run.price("package.module:MyModel").extract("ilp")    # the same e-graph under other prices
    run.tensor_graph(run.extract("ilp").choice)           # a TensorGraph; eqsat.tosa.dumps writes it

A directory (`eqsat/runs/archive.py`) with the graphs as .tosa, the e-graph, its prices as a choice graph that `extraction.io.load` reads,
the choice, Vela's tables, options, target and versions. Rules are code and are not saved, only their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.runs import archive, codec
from eqsat.runs.archive import ArchiveError
from eqsat.search.choice import Choices, build
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads
from eqsat.versions import versions
from extraction import Extraction, check, extract

if TYPE_CHECKING:
    from cost_models.protocol import CostModel
    from eqsat.egraph.engine import Extern, Rule
    from eqsat.explain import Explanation

FORMAT, VERSION = "eqsat-run", 2
_PACKAGES = ("eqsat", "egglog", "ethos-u-vela", "executorch", "torch", "numpy", "tosa-tools")


@dataclass(frozen=True, slots=True)
class Run:
    """One optimization of one graph.

    graphs: .tosa buffers "explicit", "chosen" and, if there was one, "stock". choices: the e-graph and its prices as the last
    extraction saw them; choice: {class: choice node} of eqsat's best candidate. chosen: which graph won, "eqsat", "stock" or "explicit".
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
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
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
        """The same e-graph under another model's prices: a model, or a name as `Options.cost_model` takes it, which gets Vela workers.

        The new run has no choice until something is extracted. Raises ValueError for an unknown name, WorkerError.
        """
        if not isinstance(cost_model, str):
            return replace(
                self,
                choices=build(self.choices.frozen, cost_model),
                choice={},
                options={**self.options, "cost_model": type(cost_model).__name__},
            )
        import cost_models
        from cost_models.cache import PriceCache
        from eqsat.workers.worker import Pool

        make, prices = cost_models.find(cost_model), PriceCache(cache)
        try:
            with Pool() as pool:
                return replace(
                    self,
                    choices=build(self.choices.frozen, make(self.target, pool, prices)),
                    choice={},
                    options={**self.options, "cost_model": cost_model},
                )
        finally:
            prices.close()

    def tensor_graph(self, choice: Mapping[int, int] | None = None) -> TensorGraph:
        """The graph of a choice (None: the run's own)."""
        return self.choices.tensor_graph(self.choice if choice is None else choice)[0]

    def explain(self, rules: Sequence[Rule] = (), externs: Sequence[Extern] = ()) -> Explanation:
        """Why the chosen graph equals the source, op by op (`eqsat/explain`); the user's own rules that took part must be given."""
        from eqsat.explain import explain

        return explain(self, rules, externs)

    def save(self, place: str | Path) -> None:
        """Writes the run to a directory, whole or not at all. Raises InputError."""
        info = {
            "name": self.name,
            "target": {"accelerator": self.target.accelerator, "flags": list(self.target.flags)},
            "chosen": self.chosen,
            "choice": sorted(self.choice.items()),
            "rules": list(self.rules),
            "options": self.options,
            "result": self.result,
            "versions": self.versions,
        }
        files = {f"{k}.tosa": v for k, v in self.graphs.items()}
        files["tables.json.gz"] = codec.pack({k: list(rows) for k, rows in self.tables.items()})
        archive.write(Path(place), FORMAT, VERSION, info, {**files, **codec.write(self.choices.frozen, self.choices)})


def load(place: str | Path) -> Run:
    """A saved run. Raises ArchiveError for what is no run, of another version, incomplete or changed."""
    info, files = archive.read(Path(place), FORMAT, VERSION)
    try:
        graphs = {name.removesuffix(".tosa"): data for name, data in files.items() if name.endswith(".tosa")}
        source = loads(graphs["explicit"], f"{place}/explicit.tosa")
        run = Run(
            info["name"],
            Target(info["target"]["accelerator"], tuple(info["target"]["flags"])),
            graphs,
            info["chosen"],
            codec.read(files, source),
            dict(info["choice"]),
            info["rules"],
            info["options"],
            info["result"],
            codec.unpack(files["tables.json.gz"]),
            info["versions"],
        )
        if run.choice:  # a run that was priced anew has none
            run.cost()
        return run
    except Exception as e:  # noqa: BLE001 - what a damaged file raises, from zlib to numpy, has no end
        raise ArchiveError(
            f"{place}: its content does not fit together ({type(e).__name__}: {e}); save it again"
        ) from e


def check_place(place: Path | None) -> None:
    """Refuses a place where a run cannot be saved. Raises InputError."""
    if place is not None:
        archive.check_place(place, FORMAT)
