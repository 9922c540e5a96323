"""What an optimization hands back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any, Generic, TypeVar, cast

from eqsat.ground.files import InputError
from eqsat.options.decision import Figures, MemoryLimits, more, under_limit
from eqsat.options.options import COMMAND_STREAM
from eqsat.options.referee import StreamPrice
from eqsat.search import figures as figures_of
from eqsat.search.comparison import Row, as_html, as_text, binary_line, proof_line, sections, settings_line
from eqsat.search.figures import GraphFigures
from eqsat.search.run import Run
from eqsat.tosa.locations import Origins, read
from eqsat.vela.compile import Footprint
from eqsat.vela.facts import version as vela_version
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Bound
from eqsat.verification.deviation import Deviation

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Extracted:
    """One choice that was compiled whole: who found it in which round (from the second on, prices are corrected), its
    cost in cycles as the cost model sees it, its corrected cycles by Vela, and the proved relative gap of the
    extraction (None: no bound)."""

    extractor: str
    round: int
    predicted: float
    cycles: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Point:
    """One graph of the Pareto set: `tosa`, by its name ("eqsat", "stock" or "explicit"), that no other one beats in
    cycles, bytes of SRAM and bytes of flash (commands and weights) at once; settings: of Vela, besides those of the
    target. fits: within the limits; verified: equal to the reference, None where that was not tried."""

    name: str
    figures: Figures
    fits: bool
    verified: bool | None
    tosa: bytes = field(repr=False)
    settings: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Without the graph."""
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
    """Outcome for one graph.

    explicit: the input, for those who want to compare for themselves.
    chosen: "eqsat", "stock" or "explicit".
    figures: of "stock", the "explicit" and the chosen graph ("eqsat"); those of a graph that Vela refuses, or that
    there is none of, are None or empty.
    They are told by the properties `cycles`, `stock_cycles`, `explicit_cycles` and their like: totals of the version
    `vela` of Vela.
    corrected: the same without what Vela is known to charge for nothing (`eqsat/vela/broadcasts.py`), which decides.
    verified: equal to the reference to the bit: proved, or on samples; stock_verified: the same of the stock graph,
    None if it was not compared.
    deviation: of a tolerant result that is not equal to the bit.
    proved: equal to it for every input on which it does not overflow itself (docs/proofs.md); stock_proved: the same of
    the stock graph, None where that was not tried.
    undecided: the operators at which the proof ended, and why; the result was compared on samples then.
    error_bound: the probability that "proved" is wrong is at most that.
    binary_verified: the commands that Vela makes of the result, run on the functional model, compute what the reference
    does; None: they could not be run, or there was no time; binary_reason says which, and where they differ.
    stock_binary_verified: the same of the stock graph.
    binary_proved: they compute what the result does for every input; None where that was not proved, and
    binary_undecided says why: the commands at which the proof ended.
    stock_binary_proved, stock_binary_undecided: the same of the stock graph.
    referee: by which total candidates were ranked; the cycles of `points` are that referee's.
    bound: cycles that the input needs at least.
    searched: extraction gave at least one graph that Vela accepts, or its answer was remembered; if not, `warnings` say
    why, and the command line ends with exit code 4.
    settings: of Vela, besides those of the target, with which `tosa` is to be compiled; none unless the caller said
    that it does.
    remembered: the very same search was done before, and what it answered was compiled and verified again; there is no
    run then.
    respelled: a graph that differs from this one in constants alone was searched before, and its choice gains as much
    with the constants of this one; there is no run then.
    interrupted: the search was ended before it was done (`Interruption`), and this is the best that was found until
    then.
    limits: the memory that it may need; points: the Pareto set of all graphs that were compiled, by cycles, without
    those that are known to differ.
    table: Vela's table of the result, a row per operator that runs, with the `origins` of each as far as the input
    tells them.
    seconds: by stage.
    raw: Vela's raw output for the result, which is what was run.
    known: what `run` is made of, without these figures.
    """

    tosa: bytes = field(repr=False)
    explicit: bytes = field(repr=False)
    chosen: str
    figures: Mapping[str, GraphFigures]
    verified: bool
    deviation: Deviation | None
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
    referee: str
    bound: Bound
    coverage: float
    opaque: dict[str, int]
    e_nodes: int
    stop: str
    candidates: int
    searched: bool
    binary_undecided: list[str] = field(default_factory=list)
    stock_binary_undecided: list[str] = field(default_factory=list)
    settings: tuple[str, ...] = ()
    remembered: bool = False
    respelled: bool = False
    interrupted: bool = False
    extractions: list[Extracted] = field(default_factory=list)
    limits: MemoryLimits = MemoryLimits()
    points: list[Point] = field(default_factory=list, repr=False)
    table: list[dict[str, Any]] = field(default_factory=list, repr=False)
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    vela: str = field(default_factory=vela_version)
    raw: RawOutput | None = field(default=None, repr=False, compare=False)
    known: Run | None = field(default=None, repr=False, compare=False)

    cycles = _Figure[int]("eqsat", "cycles")
    stock_cycles = _Figure[int | None]("stock", "cycles")
    explicit_cycles = _Figure[int | None]("explicit", "cycles")
    corrected = _Figure[int]("eqsat", "corrected")
    stock_corrected = _Figure[int | None]("stock", "corrected")
    explicit_corrected = _Figure[int | None]("explicit", "corrected")
    by_kind = _Figure[dict[str, int]]("eqsat", "by_kind")
    stock_by_kind = _Figure[dict[str, int]]("stock", "by_kind")
    explicit_by_kind = _Figure[dict[str, int]]("explicit", "by_kind")
    footprint = _Figure[Footprint]("eqsat", "footprint")
    stock_footprint = _Figure[Footprint | None]("stock", "footprint")
    explicit_footprint = _Figure[Footprint | None]("explicit", "footprint")

    @property
    def command_stream(self) -> dict[str, StreamPrice | None]:
        """Prices of the command streams by graph, None where there is none, or its commands are not known."""
        return {graph: figures.stream for graph, figures in self.figures.items()}

    def columns(self) -> tuple[GraphFigures, GraphFigures]:
        """Figures of what there would be without eqsat, stock's graph or else the given one, and of the answer."""
        return self.figures["explicit" if self.stock_cycles is None else "stock"], self.figures["eqsat"]

    def _table(self) -> tuple[Row, list[list[Row]]]:
        name = "before" if self.stock_cycles is None else "stock"
        return Row("cycles by operator kind", name, "eqsat", "ratio"), sections(*self.columns(), self.bound)

    def verdicts(self) -> list[str]:
        """A line each: whether it is verified, as a graph and as a binary; why nothing was gained; what more memory
        would gain; warnings."""
        out = [f"warning: {w}" for w in self.warnings]
        out.append(
            self.deviation.text if self.deviation else f"verified bit for bit: {'yes' if self.verified else 'no'}"
        )
        if self.verified:
            out.append(proof_line(self.proved, self.undecided))
        if self.settings:
            out.append(settings_line([self.settings]))
        out.append(binary_line(self.binary_verified, self.binary_reason, self.binary_proved))
        if self.passed_over:
            out.append(f"with more memory: {self.passed_over}")
        return [*out, *filter(None, [self.kept])]

    def __str__(self) -> str:
        """The table that `eqsat optimize` prints, and what it says below."""
        return "\n\n".join([as_text(*self._table()), "\n".join(self.verdicts())])

    def _repr_html_(self) -> str:
        """The same, in notebooks."""
        return as_html(*self._table()) + "".join(f"<p>{escape(line)}</p>" for line in self.verdicts())

    def record(self) -> dict[str, Any]:
        """The figures, as JSON holds them."""
        record = asdict(replace(self, known=None, raw=None, tosa=b"", explicit=b"", points=[], figures={}))
        del record["known"], record["figures"]
        return {
            **record,
            **figures_of.record(self.figures),
            "tosa": len(self.tosa),
            "explicit": len(self.explicit),
            "points": [p.record() for p in self.points],
            "run": None,
        }

    @cached_property
    def run(self) -> Run | None:
        """All that was known, to save (`eqsat.runs.save`) and to explain (`eqsat.explain.explain`); None if not
        `searched`."""
        return replace(self.known, result=self.record()) if self.known else None

    @property
    def origins(self) -> dict[str, Origins]:
        """{result of an operator in `tosa`: the PyTorch operators that it stands for}, as far as the operators of the
        input have locations."""
        return read(self.tosa)

    @property
    def passed_over(self) -> str:
        """What the fastest graph that needs more memory than it may would have bought, "" if that is nothing.

        It was verified, or the text says that it was not.
        """
        own = self._own_figures()
        over = [p for p in self.points if not p.fits and p.figures.cycles < own.cycles]
        if not over:
            return ""
        fastest = min(over, key=lambda p: p.figures)
        return more(fastest.figures, own) + ("" if fastest.verified else " (not verified)")

    @property
    def beside(self) -> list[str]:
        """What a little less SRAM would cost and a little more would buy: the next graphs of the Pareto set that fit
        into the limit of flash, each with the option that asks for it.

        It was verified, or the text says that it was not.
        """
        own, limits = self._own_figures(), replace(self.limits.widest, sram=None)
        known = [p for p in self.points if p.verified is not False and limits.fits(p.figures)]
        less = max((p for p in known if p.figures.sram < own.sram), key=lambda p: p.figures.sram, default=None)
        faster = (p for p in known if p.figures.sram > own.sram and p.figures.cycles < own.cycles)
        next_ones = less, min(faster, key=lambda p: p.figures.sram, default=None)
        return [under_limit(p.figures, own) + ("" if p.verified else " (not verified)") for p in next_ones if p]

    def _own_figures(self) -> Figures:
        price = self.command_stream["eqsat"] if self.referee == COMMAND_STREAM else None
        return Figures.of(price.cycles if price else self.corrected, self.footprint, self.cycles)

    @property
    def cycles_before(self) -> int | None:
        """Those that there would be without eqsat: of stock's graph, of the given one where there is no other; None
        where Vela refuses both."""
        return self.explicit_cycles if self.stock_cycles is None else self.stock_cycles

    @property
    def kept(self) -> str:
        """Why nothing was gained and which graph is the answer, "" where something was."""
        before = self.cycles_before
        if self.chosen == "eqsat" or before is None or self.cycles < before:
            return ""
        graph = "stock's graph is kept" if self.chosen == "stock" else "the given graph is kept"
        if not (self.searched or self.interrupted):
            return f"no alternatives were found: {graph}"
        if self.passed_over:
            return f"nothing faster fits into the memory that it may need: {graph}"
        if min((before, *(e.cycles for e in self.extractions))) < self.cycles:
            return f"what takes fewer cycles was not used, as warnings say: {graph}"
        return f"nothing faster was found: {graph}"

    def run_or_error(self) -> Run:
        """The run. Raises InputError with the reason why there is none."""
        if self.run is None:
            raise InputError(
                f"there is no run to save or explain: {'; '.join(self.warnings) or 'no alternatives were found'}"
            )
        return self.run
