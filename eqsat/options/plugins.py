"""Errors in the user's own code: they are reported as such and end the run."""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Iterator, Sequence

import cost_models
from cost_models.protocol import CostModel, Price, Unit
from eqsat.ground.files import PluginError
from eqsat.ground.process import WorkerError
from eqsat.ground.registry import Registry
from eqsat.options.options import Options
from extraction import ChoiceGraph, Extraction, ExtractionError, InvalidExtraction, check
from extraction.api import BUILT_IN, EXTRACTORS

#: The members of a cost model, see `CostModel`.
_MEMBERS = (*CostModel.__annotations__, "price", "fusion")


def plugin_error(error: Exception, options: Options) -> PluginError | None:
    """Returns the PluginError to raise if `error` comes from the user's own code, else None.

    A plug-in may raise those of a solver that finds nothing and of a worker that died.
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
