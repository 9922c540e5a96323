"""The options that a user may set, and efforts: how much an optimization may spend.

A search begins with the lower efforts and goes on from what they found, so more effort never gives a worse result.
"""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import cost_models
import extraction
from cost_models.protocol import CostModel, Price, Unit
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget
from eqsat.egraph.rule import Rule
from eqsat.ground.files import InputError, PluginError
from eqsat.ground.process import WorkerError
from eqsat.ground.registry import Registry
from eqsat.options.spellings import for_target
from eqsat.rules.presets import PRESETS
from eqsat.store.local import Setting
from eqsat.target import Target
from extraction import ChoiceGraph, Extraction, ExtractionError, InvalidExtraction, check
from extraction.api import BUILT_IN, EXTRACTORS

#: Limits that are not numbers: what "stock" allows (`AS_STOCK`), and no limit.
STOCK, ANY = "stock", "any"
#: Bytes of a unit, by its first letter.
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_BYTES = re.compile(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)([KM])(?:i?B)?", re.IGNORECASE)
_SHARE = re.compile(r"(\+?[0-9]+(?:\.[0-9]+)?|-[0-9]{1,2}(?:\.[0-9]+)?)%")


class Growth(NamedTuple):
    """A limit relative to stock's graph: the larger of a share and a number of bytes more, or a share less.

    share: negative for less.
    earned: the share up to which more is allowed if cycles pay for it.
    """

    share: float = 0.0
    bytes: int = 0
    earned: float = 0.0


#: Bytes of SRAM that "stock" allows in any case: a recurrent network's stock graph takes 1 to 4 KiB.
SRAM_FLOOR = 16 << 10
#: Growth that "stock" allows, by the field of `Options`.
#: 1% of a small .pte is less than the commands of one more operator, hence 4 KiB.
AS_STOCK = {"max_sram": Growth(), "max_flash": Growth(0.01, 4 << 10, 0.05)}


def parse(given: int | str, field: str, called: str = "") -> int | Growth | None:
    """Returns a limit in bytes or relative to stock's graph; None: there is none.

    field: of `Options`. called: its name for the user, if that differs. Raises InputError.
    """
    text = str(given).strip()
    if text == ANY:
        return None
    if text == STOCK:
        return AS_STOCK[field]
    if share := _SHARE.fullmatch(text):
        return Growth(share=float(share[1]) / 100)
    if found := _BYTES.fullmatch(text.removeprefix("+")):
        plain, number, unit = found.groups()
        size = int(plain) if plain else int(float(number) * _UNITS[unit.upper()])
        return Growth(bytes=size) if text.startswith("+") else size
    raise InputError(
        f"{called or field} is {given!r}: give a number of bytes (65536, 64K, 1M), "
        f"how much more or less than stock's (+4K, 5%, -50%), {STOCK} or {ANY}"
    )


@dataclass(frozen=True, slots=True)
class Effort:
    """The budgets of one effort.

    summary: one line for users.
    compilations: graphs compiled to fit into limits of memory, at most; 0: the graph is only written again.
    A proposal that sets out from single graphs may have a share of as many for each of them (`Step`).
    extractor: name of the extractor.
    time_limit: seconds of each extraction.
    binary_time_limit: seconds of a processor for the proof of one binary.
    """

    summary: str
    compilations: int
    extractor: str = "dag_greedy"
    time_limit: float = 2.0
    binary_time_limit: float = 5.0


#: The efforts by number.
EFFORTS = (
    Effort("no search: the graph is only written again", 0),
    Effort("greedy extraction, which takes seconds", 24),
    Effort("the default", 60, extractor="portfolio", time_limit=5.0, binary_time_limit=30.0),
)
DEFAULT_EFFORT = 2

#: Objectives of a run: few cycles, little SRAM, or the Pareto set of both.
CYCLES, SRAM, PARETO = OBJECTIVES = ("cycles", "sram", "pareto")

#: Fields of `Options` that effort decides unless they are given.
_OF_EFFORT = ("extractor", "time_limit", "binary_time_limit")
#: In place of such a field that is not given.
_BY_EFFORT: Any = None
#: {option that is a number: the least that it may be}.
_LEAST = {"time_limit": 0, "rounds": 1, "binary_time_limit": 0}


class OptionError(InputError):
    """An unknown option; the message names it and the known ones."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a user may set.

    preset: name of a set of rules (`eqsat.rules.presets`).
    extractor: of `extraction.available()`, `file.py:function` or `module:function`.
    cost_model: of `cost_models.available()`, `file.py:Class` or `module:Class`.
    rules: identities of the user's own, besides the preset's.
    budget: limits of the saturation; of these only the seconds depend on the machine.
    time_limit: seconds per extraction.
    rounds: extractions per extractor; Vela's table of the last choice corrects their prices.
    cache: place of the store of prices and answers (`eqsat/store/local.py`); None: `EQSAT_CACHE`, or the user's cache.
    binary_time_limit: seconds of a processor for the proof of one binary; 0: binaries are neither run nor proved.
    max_sram: bytes of SRAM that each delegate may use: a number, "64K" or "1M".
    "+16K", "5%" or "-50%" are relative to stock's graph, or to the given graph if there is no stock.
    "stock" is the most of what stock's graph uses, what the NPU has to itself (Dedicated_Sram), and 16 KiB.
    "0%" is exactly what stock's graph uses, and "any" is no limit.
    max_flash: bytes of each delegate's commands and weights, in the same forms.
    "+4K", "5%" and "-5%" are of the whole .pte; several delegates share what is added.
    "stock" allows the larger of 1% and 4 KiB, and up to 5% if each percent beyond saves at least 2% of the cycles.
    objective: "cycles", "sram" or "pareto".
    "sram" is the least SRAM at no more cycles than stock's graph takes.
    "pareto" decides by cycles, but also searches for less SRAM, and verifies the whole Pareto set (`Result.points`).
    effort: 0 to 2 (`EFFORTS`), which decides extractor, time_limit and binary_time_limit unless they are given.
    0 also leaves out all rules. `dataclasses.replace` keeps the three fields of the options that it is given.
    remember: whether lowerings store their answers, and reuse those of the very same search, verified again.

    Raises InputError for an unknown preset, extractor or cost model, and for other bad values.
    Raises PluginError if the module of an extractor or a cost model cannot be imported.
    """

    preset: str = "all"
    extractor: str = _BY_EFFORT
    cost_model: str = "vela_groups"
    rules: Sequence[Rule] = ()
    budget: Budget = DEFAULT_BUDGET
    time_limit: float = _BY_EFFORT
    rounds: int = 3
    cache: str | Path | None = None
    binary_time_limit: float = _BY_EFFORT
    max_sram: int | str = STOCK
    max_flash: int | str = STOCK
    objective: str = CYCLES
    effort: int = DEFAULT_EFFORT
    remember: bool = True

    def __post_init__(self) -> None:
        if self.effort not in range(len(EFFORTS)):
            gone = "; 3 was removed in 0.2: use 2, with a longer time_limit if need be" if self.effort == 3 else ""
            raise OptionError(f"there is no effort {self.effort!r}; there are 0 to {len(EFFORTS) - 1}{gone}")
        for name in _OF_EFFORT:
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(EFFORTS[self.effort], name))
        for what, name, known in (
            ("preset of rules", self.preset, PRESETS),
            ("objective", self.objective, OBJECTIVES),
        ):
            if name not in known:
                own = "; rules of your own are `--user-rules`, `Options(rules=...)`" if known is PRESETS else ""
                raise OptionError(f"no {what} is called {name!r}; there are {', '.join(sorted(known))}{own}")
        for name, least in _LEAST.items():
            if not isinstance(value := getattr(self, name), Real):
                raise OptionError(f"{name} is {value!r}: give a number")
            if value < least:
                raise OptionError(f"{name} is {value:g}: give at least {least}")
        for field in AS_STOCK:
            parse(getattr(self, field), field)
        if self.cache is not None:
            Setting.of(self.cache).check()
        extraction.find(self.extractor)
        cost_models.find(self.cost_model)

    @property
    def compilations(self) -> int:
        """How many graphs the effort compiles to fit into limits of memory, at most; 0: it does not search."""
        return EFFORTS[self.effort].compilations

    @property
    def levels(self) -> list[Options]:
        """The options of the lower efforts that search, and these; fields that are not those of an effort stay."""
        own = EFFORTS[self.effort]
        by_effort = [name for name in _OF_EFFORT if getattr(self, name) == getattr(own, name)]
        lower = range(1, self.effort)
        return [*(replace(self, effort=k, **dict.fromkeys(by_effort, _BY_EFFORT)) for k in lower), self]

    def record(self) -> dict[str, Any]:
        """Returns the options as a JSON object, without rules (which are code), cache and remember."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("rules", "cache", "remember")}
        return {**named, "budget": asdict(self.budget)}

    def identities(self, target: Target) -> list[Rule]:
        """Returns the rules for one saturation: the preset's and the user's; none if the effort does not search."""
        return for_target([*PRESETS[self.preset], *self.rules], target) if self.compilations else []


def require_options(options: Options | None) -> Options:
    """Returns the options of a caller, or the default ones. Raises TypeError for anything else."""
    if options is None:
        return Options()
    if not isinstance(options, Options):
        raise TypeError(f"options are eqsat.Options(...), not {type(options).__name__} {options!r:.40}")
    return options


#: The members of a cost model, see `CostModel`.
_MEMBERS = (*CostModel.__annotations__, "price", "fusion")


def plugin_error(error: Exception, options: Options) -> PluginError | None:
    """Returns the PluginError to raise if `error` comes from the user's own code, else None.

    A plug-in is allowed to raise the errors of a solver that finds nothing and of a worker that died.
    """
    if isinstance(error, WorkerError | ExtractionError):
        return None
    owners = dict(_files(options))
    cause: BaseException | None = error
    while cause is not None:
        for frame in reversed(traceback.extract_tb(cause.__traceback__)):
            if frame.filename in owners:
                return PluginError(
                    f"{owners[frame.filename]} failed at {frame.filename}:{frame.lineno}: {type(cause).__name__}: {cause}"
                )
        cause = cause.__cause__
    return None


def places(options: Options) -> list[str]:
    """Returns the user's own cost model and extractor, as `file.py:Name` or `module:Name`. Raises InputError."""
    return [registry.place(name) for registry, name in _own(options)]


def _own(options: Options) -> list[tuple[Registry, str]]:
    named = (cost_models.COST_MODELS, options.cost_model), (EXTRACTORS, options.extractor)
    return [(registry, name) for registry, name in named if name not in registry.built_in]


def _files(options: Options) -> Iterator[tuple[str, str]]:
    """Yields (file, what it defines) of all code that is the user's own."""
    for registry, name in _own(options):
        yield _file(registry.find(name)), f"the {registry.what} {name!r}"
    for r in options.rules:
        for f in r.compiled.functions:
            fn = getattr(f, "fn", None)
            if fn is not None and not fn.__module__.startswith("eqsat."):
                yield _file(fn), f"the function {f.name!r} of the rule {r.name!r}"


def _file(found: object) -> str:
    code = found if inspect.isclass(found) or inspect.isroutine(found) else type(found)
    return inspect.getfile(code)


def make_cost_model(name: str, *given: object) -> CostModel:
    """Returns the cost model of this name, made of (target, pool, price cache). Raises PluginError if it is none."""
    model = cost_models.find(name)(*given)
    if missing := [member for member in _MEMBERS if not hasattr(model, member)]:
        raise PluginError(
            f"{name!r} is no cost model: it has no {', '.join(missing)}; derive it from `cost_models.NodeModel`"
        )
    return model


def check_prices(prices: Sequence[Price], units: Sequence[Unit], model: CostModel) -> Sequence[Price]:
    """Returns the prices of units after checking them: cycles >= 0, or inf. Raises PluginError."""
    for price, unit in zip(prices, units, strict=True):
        if math.isnan(price.cycles) or price.cycles < 0:
            ops = ", ".join(name for name, _ in unit.steps)
            raise PluginError(
                f"the cost model {type(model).__name__} gives {price.cycles:g} cycles for {ops}: a price is 0 or more, or inf"
            )
    return prices


def check_extraction(found: object, graph: ChoiceGraph, extractor: str) -> Extraction:
    """Returns an extraction after checking that its choice is valid and its cost right. Raises PluginError."""
    if not isinstance(found, Extraction):
        raise PluginError(f"the extractor {extractor!r} gives {type(found).__name__}, not an extraction.Extraction")
    if extractor not in BUILT_IN:  # built-in ones check their own results
        try:
            cost = check(graph, found.choice)
        except InvalidExtraction as e:
            raise PluginError(f"the extractor {extractor!r} gives no valid choice: {e}") from e
        if not math.isclose(cost, found.cost, rel_tol=1e-6, abs_tol=1e-6):
            raise PluginError(
                f"the extractor {extractor!r} gives a choice of cost {cost:,g} and calls it {found.cost:,g}"
            )
    return found
