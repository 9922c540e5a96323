"""The result of an optimization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from cost_models.command_stream import Ratio, StreamPrice
from eqsat.ground.files import InputError
from eqsat.ground.table import Table, as_html
from eqsat.options.decision import Figures, MemoryLimits, more, shortfall, sizes_under_limits
from eqsat.search import figures as figures_of
from eqsat.search.channels import ChannelStep
from eqsat.search.comparison import equality, tables
from eqsat.search.figures import GraphFigures
from eqsat.search.run import Run
from eqsat.tosa.locations import Origins, read
from eqsat.vela.compile import Footprint
from eqsat.vela.facts import version as vela_version
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Bound

_Value = TypeVar("_Value")

#: Fewest cycles that more memory saves where it is offered, and their fewest share of the answer's; one is enough.
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
    figures: figures of "stock", the "explicit" and the chosen graph ("eqsat").
    A graph that Vela refuses, or that does not exist, has None or empty ones.
    So has stock's if it computes something else, as no comparison with it is fair.
    The properties `cycles`, `stock_cycles`, `explicit_cycles` and so on return them.
    vela: the version of Vela whose totals they are.
    calibrated: cycles by the calibrated price of the commands, by which graphs are ranked.
    verified: whether the result equals the reference to the bit, by proof or on samples.
    stock_verified: this verdict on stock's graph, None if it could not be compared.
    proved: whether it is equal for every input on which the reference does not overflow (docs/proofs.md).
    stock_proved: this verdict on stock's graph, None if that was not tried.
    undecided: the operators at which the proof ended, and why; then samples were compared.
    error_bound: the highest probability that "proved" is wrong.
    binary_verified: whether Vela's commands compute what the reference does.
    They run on the functional model; None if they could not run, or if time ran out.
    binary_reason: why they did not run, or where they differ.
    binary_samples: on how many samples they were compared; large graphs get fewer, 2 at least.
    stock_binary_verified: whether the commands of stock's graph compute what that does.
    It is None if the graph itself computes something else.
    binary_proved: whether the commands compute what the result does for every input, None if that was not proved.
    binary_undecided: the commands at which that proof ended, or why there is none.
    stock_binary_proved, stock_binary_undecided: the same where the result is stock's graph.
    bound: the fewest cycles that the input needs.
    coverage: the share of the input's operators that are not opaque.
    opaque: how many operators of each opaque kind the input has.
    searched: whether extraction gave a graph that Vela accepts, or the answer was remembered.
    If not, `warnings` say why.
    settings: of Vela, besides those of the target, with which `tosa` has to be compiled.
    remembered: whether the very same search was done before.
    Its answer was compiled and verified again, and there is no run.
    respelled: whether a graph that differs only in constants was searched before.
    Its choice gains as much with the constants of this one, and there is no run.
    interrupted: whether the search was ended early (`Interruption`).
    limits: the memory that the result may need.
    nearest: the figures of the graph that exceeds the limits least, None if the result fits.
    points: the Pareto set of all compiled graphs, by cycles, without those that are known to differ.
    table: Vela's table of the result; each row has its `origins` if the input has locations.
    channel_steps: numbers of channels of which the model should have slightly fewer.
    seconds: wall-clock seconds by stage.
    raw: Vela's raw output for the result; its commands were run.
    run: everything that was known, to save (`eqsat.runs.save`) and to explain (`eqsat.explain.explain`).
    It is None if not `searched`.
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
    raw: RawOutput | None = field(default=None, repr=False, compare=False)
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
        """Returns the figures without eqsat (stock's graph, or else the given one) and of the answer."""
        return self.figures["explicit" if self.stock_cycles is None else "stock"], self.figures["eqsat"]

    def tables(self) -> list[Table]:
        """Returns the tables of all figures without eqsat and of the answer."""
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
        record = asdict(replace(self, run=None, raw=None, tosa=b"", explicit=b"", points=[], figures={}))
        del record["figures"]
        return {
            **record,
            **figures_of.record(self.figures),
            "referee": "calibrated",
            "deviation": None,
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
        """Whether the answer is within the limits of memory, with flash that it may have earned."""
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
        """The line on an answer that comes from an earlier search, "" for one of a search of its own."""
        if self.remembered:
            return "not searched again: the answer is that of the same search before, verified again"
        if self.respelled:
            return "not searched again: the choice is that of the same graph with other constants, verified with these"
        return ""

    @property
    def kept(self) -> str:
        """Why nothing was gained and which graph is the answer; "" if something was gained."""
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
