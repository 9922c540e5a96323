"""The result of an optimization, and the run behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import cost_models
from cost_models.cache import PriceCache
from cost_models.command_stream import Ratio, StreamPrice
from cost_models.protocol import CostModel
from eqsat.choice.choice import Choices, build
from eqsat.ground.files import InputError
from eqsat.ground.table import Table, as_html
from eqsat.ground.versions import versions
from eqsat.ground.worker import Pool
from eqsat.options.decision import Figures, MemoryLimits, more, shortfall, sizes_under_limits
from eqsat.search import figures as figures_of
from eqsat.search.channels import ChannelStep
from eqsat.search.figures import GraphFigures, equality, tables
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.locations import Origins, read
from eqsat.vela.compile import Footprint
from eqsat.vela.facts import version as vela_version
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Bound
from eqsat.vela.table import Row
from extraction import Extraction, check, extract

# A run: everything that one optimization knew, for explanations and for experiments without ExecuTorch.
#
# run = eqsat.optimize_tosa(tosa, target).run           # or: eqsat.runs.load("run")
# run.extract("asp").cost                               # extraction on the priced choice graph
# run.price("package.module:MyModel").extract("asp")    # the same e-graph under other prices
# run.tensor_graph(run.extract("asp").choice)           # a TensorGraph; eqsat.tosa.dumps writes it

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


_Value = TypeVar("_Value")

#: More memory is offered if it saves at least so many cycles, or at least this share of the result's cycles.
#: A choice with a gap of no more than this share counts as proved to cost least.
_LEAST_OFFERED, _LEAST_SHARE = 100, 0.001


@dataclass(frozen=True, slots=True)
class Extracted:
    """One choice that was compiled as a whole graph.

    extractor: the name of the step that found it.
    round: its round; from the second on, prices are corrected.
    predicted: cycles by the cost model.
    cycles: calibrated cycles.
    gap: the proved relative gap of the extraction (None: no bound).
    proposal: the name of the proposal that asked for it.
    """

    extractor: str
    round: int
    predicted: float
    cycles: int
    gap: float | None
    proposal: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One graph of the Pareto set: none beats it in cycles, bytes of SRAM and bytes of flash at once.

    name: "eqsat", "stock" or "explicit".
    fits: whether it is within the limits.
    verified: whether it equals the reference, None if that was not tried.
    tosa: its flatbuffer.
    settings: of Vela, besides those of the target.
    """

    name: str
    figures: Figures
    fits: bool
    verified: bool | None
    tosa: bytes = field(repr=False)
    settings: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Returns the figures and verdicts as a JSON object, without the graph."""
        return {
            "name": self.name,
            **self.figures._asdict(),
            "fits": self.fits,
            "verified": self.verified,
            "settings": self.settings,
        }


class _Figure(Generic[_Value]):
    """A property of a Result: one of a graph's figures."""

    def __init__(self, graph: str, name: str) -> None:
        self.graph, self.name = graph, name

    def __get__(self, result: Result | None, owner: type[Result]) -> _Value:
        return cast("_Value", getattr(result.figures[self.graph], self.name) if result else self)


@dataclass(frozen=True)
class Result:
    """The result for one graph.

    tosa: the chosen graph, with locations.
    explicit: the input, for users who want to compare for themselves.
    chosen: "eqsat", "stock" or "explicit".
    figures: of "stock", "explicit" and "eqsat", the chosen graph; `stock_cycles`, `cycles` and so on return them.
    A graph that Vela refuses, or that does not exist, has None or empty ones.
    So has stock's if it computes something else, as no comparison with it is fair.
    vela: the version of Vela whose totals they are.
    calibrated: cycles by the calibrated price of the commands, by which graphs are ranked.
    verified: whether the result equals the reference to the bit, by proof or on samples.
    stock_verified: this verdict on stock's graph, None if it could not be compared.
    proved: whether it is equal for every input on which the reference does not overflow (docs/proofs.md).
    stock_proved: this verdict on stock's graph, None if that was not tried.
    undecided: the operators at which the proof ended, and why; then samples were compared.
    error_bound: the highest probability that "proved" is wrong.
    binary_verified: whether Vela's commands, run on the functional model, compute what the reference does.
    It is None if they could not run, or if time ran out.
    binary_reason: why they did not run, or where they differ.
    binary_samples: on how many samples they were compared; large graphs get fewer, 2 at least.
    stock_binary_verified: whether stock's commands compute what its graph does; None if that computes something else.
    binary_proved: whether the commands compute what the result does for every input, None if that was not proved.
    binary_undecided: the commands at which that proof ended, or why there is none.
    stock_binary_proved, stock_binary_undecided: the same where the result is stock's graph.
    bound: the fewest cycles that the input needs.
    coverage: the share of the input's operators that are not opaque.
    opaque: how many operators of each opaque kind the input has.
    searched: whether extraction gave a graph that Vela accepts, or an earlier search did; if not, `warnings` say why.
    settings: of Vela, besides those of the target, with which `tosa` has to be compiled.
    remembered: whether the very same search was done before; its result was compiled and verified again.
    respelled: whether a graph that differs only in constants was searched before.
    Its choice gains as much with the constants of this one.
    interrupted: whether the search was ended early (`Interruption`).
    limits: the memory that the result may need.
    nearest: the figures of the graph that exceeds the limits least, None if the result fits.
    points: the Pareto set of all compiled graphs, by cycles, without those that are known to differ.
    table: Vela's table of the result; each row has its `origins` if the input has locations.
    channel_steps: numbers of channels of which the model should have slightly fewer.
    seconds: wall-clock seconds by stage.
    raw: Vela's raw output for the result; its commands were run.
    run: everything that was known, to save (`eqsat.runs.save`) and to explain (`eqsat.explain.explain`).
    It is None if not `searched`, or if `remembered` or `respelled`.
    """

    tosa: bytes = field(repr=False)
    explicit: bytes = field(repr=False)
    chosen: str
    figures: Mapping[str, GraphFigures]
    verified: bool
    stock_verified: bool | None
    proved: bool
    undecided: list[str]
    error_bound: float
    stock_proved: bool | None
    binary_verified: bool | None
    binary_reason: str
    binary_proved: bool | None
    stock_binary_verified: bool | None
    stock_binary_proved: bool | None
    bound: Bound
    coverage: float
    opaque: dict[str, int]
    e_nodes: int
    stop: str
    candidates: int
    searched: bool
    binary_undecided: list[str] = field(default_factory=list)
    stock_binary_undecided: list[str] = field(default_factory=list)
    binary_samples: int = 0
    settings: tuple[str, ...] = ()
    remembered: bool = False
    respelled: bool = False
    interrupted: bool = False
    extractions: list[Extracted] = field(default_factory=list)
    limits: MemoryLimits = MemoryLimits()
    nearest: Figures | None = None
    points: list[Point] = field(default_factory=list, repr=False)
    table: list[dict[str, Any]] = field(default_factory=list, repr=False)
    channel_steps: list[ChannelStep] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    vela: str = field(default_factory=vela_version)
    raw: RawOutput = field(repr=False, compare=False, kw_only=True)
    run: Run | None = field(default=None, repr=False, compare=False)

    cycles = _Figure[int]("eqsat", "cycles")
    stock_cycles = _Figure[int | None]("stock", "cycles")
    explicit_cycles = _Figure[int | None]("explicit", "cycles")
    calibrated = _Figure[int]("eqsat", "calibrated")
    stock_calibrated = _Figure[int | None]("stock", "calibrated")
    explicit_calibrated = _Figure[int | None]("explicit", "calibrated")
    by_kind = _Figure[dict[str, int]]("eqsat", "by_kind")
    stock_by_kind = _Figure[dict[str, int]]("stock", "by_kind")
    explicit_by_kind = _Figure[dict[str, int]]("explicit", "by_kind")
    footprint = _Figure[Footprint]("eqsat", "footprint")
    stock_footprint = _Figure[Footprint | None]("stock", "footprint")
    explicit_footprint = _Figure[Footprint | None]("explicit", "footprint")

    @property
    def command_stream(self) -> dict[str, StreamPrice | None]:
        """The prices of the command streams by graph, None if there is no such graph or its commands are not known."""
        return {graph: figures.stream for graph, figures in self.figures.items()}

    @property
    def change(self) -> Ratio | None:
        """Returns the ratio of calibrated cycles to those without eqsat, with its interval; None if one is unknown."""
        before, after = self.columns()
        return after.over(before)

    def columns(self) -> tuple[GraphFigures, GraphFigures]:
        """Returns the figures without eqsat (stock's graph, or else the given one) and of the result."""
        return self.figures["explicit" if self.stock_cycles is None else "stock"], self.figures["eqsat"]

    def tables(self) -> list[Table]:
        """Returns the tables of all figures without eqsat and of the result."""
        before, after = self.columns()
        return tables({"before" if self.stock_cycles is None else "stock": before, "eqsat": after}, self.bound)

    def verdicts(self) -> list[str]:
        """Returns the lines below the table: on the search, warnings, equality, and why nothing was gained."""
        warnings = (f"warning: {w}" for w in self.warnings)
        return [*about_search([self]), *warnings, *equality(vars(self)), *filter(None, [self.kept])]

    def __str__(self) -> str:
        """Returns the tables that `eqsat optimize -v` prints, and the lines below them."""
        return "\n\n".join("\n".join(lines) for lines in (*(t.plain() for t in self.tables()), self.verdicts()))

    def _repr_html_(self) -> str:
        """Returns the tables and the lines as HTML, for notebooks."""
        return as_html(self.tables(), self.verdicts())

    def record(self) -> dict[str, Any]:
        """Returns the figures as a JSON object."""
        record = asdict(replace(self, run=None, tosa=b"", explicit=b"", points=[], figures={}))
        del record["figures"]
        return {
            **record,
            **figures_of.record(self.figures),
            "referee": "calibrated",
            "deviation": None,
            "raw": None,
            "tosa": len(self.tosa),
            "explicit": len(self.explicit),
            "points": [p.record() for p in self.points],
            "nearest": self.nearest and self.nearest._asdict(),
        }

    @property
    def origins(self) -> dict[str, Origins]:
        """The PyTorch operators behind each operator, {result of an operator in `tosa`: operators}, as far as known."""
        return read(self.tosa)

    @property
    def passed_over(self) -> str:
        """The gain of the fastest graph that exceeds the memory limits, and whether it is verified; "" if none does."""
        fastest = self._fastest_over()
        if fastest is None:
            return ""
        return more(fastest.figures, self._own_figures()) + ("" if fastest.verified else " (not verified)")

    @property
    def offer(self) -> str:
        """The gain of `passed_over` as the terminal shows it, "" if it is next to nothing."""
        fastest, own = self._fastest_over(), self._own_figures().cycles
        if fastest is None or own - fastest.figures.cycles < min(_LEAST_OFFERED, _LEAST_SHARE * own):
            return ""
        return self.passed_over

    def _fastest_over(self) -> Point | None:
        own = self._own_figures()
        faster = (p for p in self.points if not p.fits and p.figures.cycles < own.cycles)
        over = (p for p in faster if p.figures.sram > own.sram or p.figures.flash > own.flash)
        return min(over, key=lambda p: p.figures, default=None)

    @property
    def fits(self) -> bool:
        """Whether the result is within the limits of memory, with flash that it may have earned."""
        return self.nearest is None

    @property
    def shortfall(self) -> str:
        """By how much the result does not fit, and what the nearest graph takes; "" if it fits."""
        return shortfall(self.limits.widest, self._own_figures(), self.nearest) if self.nearest else ""

    @property
    def price_of_limits(self) -> str:
        """The memory for which the result takes more cycles than stock's graph, with its limit; "" if none."""
        before = self.columns()[0]
        if before.calibrated is None or before.footprint is None or self.calibrated <= before.calibrated:
            return ""
        old = Figures.of(before.calibrated, before.footprint, before.cycles or 0)
        return sizes_under_limits(self.limits.widest, old, self._own_figures())

    def _own_figures(self) -> Figures:
        return Figures.of(self.calibrated, self.footprint, self.cycles)

    @property
    def recalled(self) -> str:
        """The line on a result that comes from an earlier search, "" for one of a search of its own."""
        if self.remembered:
            return "not searched again: the answer is that of the same search before, verified again"
        if self.respelled:
            return "not searched again: the choice is that of the same graph with other constants, verified with these"
        return ""

    @property
    def kept(self) -> str:
        """Why nothing was gained and which graph is the result; "" if something was gained."""
        before = self.columns()[0].calibrated
        if self.chosen == "eqsat" or before is None or self.calibrated < before:
            return ""
        graph = "stock's graph is kept" if self.chosen == "stock" else "the given graph is kept"
        if not (self.searched or self.interrupted):
            return f"no alternatives were found: {graph}"
        if self.passed_over:
            return f"nothing faster fits into the memory that it may need: {graph}"
        if min((before, *(e.cycles for e in self.extractions))) < self.calibrated:
            why = "as warnings say" if self.warnings else "as it takes too many by Vela's own total"
            return f"what takes fewer cycles was not used, {why}: {graph}"
        gap = self.extractions[-1].gap if self.extractions else 0.0
        unsure = gap is None or gap > _LEAST_SHARE
        return f"nothing faster was found{', and nothing proves that there is none' if unsure else ''}: {graph}"

    def run_or_error(self) -> Run:
        """Returns the run. Raises InputError with the reason if there is none."""
        if self.run is None:
            raise InputError(
                f"there is no run to save or explain: {'; '.join(self.warnings) or 'no alternatives were found'}"
            )
        return self.run


def about_search(results: Sequence[Result]) -> list[str]:
    """Returns the lines on the searches of delegates.

    They tell of an earlier search, settings of Vela, and what more memory or fewer channels would gain.
    """
    out = list(dict.fromkeys(r.recalled for r in results if r.recalled))
    if any(r.settings for r in results):
        out.append(f"settings of Vela: {'; '.join(' '.join(r.settings) or 'none' for r in results)}")
    out += [f"with more memory (max-sram, max-flash): {r.offer}" for r in results if r.offer]
    return [*out, *(str(step) for r in results for step in r.channel_steps)]
