"""The optimizer's options on the command line, which every command that optimizes takes.

@app.command()
@takes_options
def optimize(source: ..., *, options: OptionsMaker) -> None:
    result = optimize_tosa(..., options=options())
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqsat.store.local import VARIABLE

if TYPE_CHECKING:
    from eqsat.options.options import Options

#: Makes the options of a command line. Raises InputError for an unknown name and for rules that fail their check.
OptionsMaker = Callable[[], "Options"]
#: Options below the headings of `--help`.
_search, _decides, _equality = (
    functools.partial(typer.Option, rich_help_panel=heading) for heading in ("Search", "What decides", "Equality")
)


def _options(
    *,
    effort: Annotated[
        int,
        _search(
            help="0: no search; 1: takes seconds; 2: the default; sets the extractor and time limits that are not given"
        ),
    ] = 2,
    rules: Annotated[str, _search(help="preset of rules; `eqsat rules` lists the presets")] = "all",
    extractor: Annotated[
        str | None,
        _search(
            help="extractor: a built-in extractor, file.py:function, module:function, or an entry point",
            show_default="by --effort",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        _search(
            min=0.1,
            metavar="SECONDS",
            help="seconds per extraction; a search runs several extractions for each delegate",
            show_default="by --effort",
        ),
    ] = None,
    cost_model: Annotated[
        str, _search(help="cost model: a built-in cost model, file.py:Class, module:Class, or an entry point")
    ] = "vela_groups",
    objective: Annotated[
        str,
        _decides(
            help="cycles: the fewest cycles; sram: the smallest SRAM that needs no more cycles than stock's graph; "
            "pareto: the fewest cycles, and the entire Pareto set of cycles and SRAM is verified"
        ),
    ] = "cycles",
    max_sram: Annotated[
        str,
        _decides(
            help="maximum SRAM of a delegate: bytes, 64K or 1M; +16K, 5% or -50%: relative to stock's graph; "
            "stock: the SRAM of stock's graph, the dedicated SRAM of the NPU, or 16 KiB, whichever is largest; "
            "0%: exactly the SRAM of stock's graph; any: no limit"
        ),
    ] = "stock",
    max_flash: Annotated[
        str,
        _decides(
            help="maximum size of the commands and weights of a delegate: bytes, 64K or 1M; "
            "+4K, 5% or -5%: size of the .pte relative to stock's; "
            "stock: 1% or 4 KiB larger, or up to 5% if that saves enough cycles; any: no limit"
        ),
    ] = "stock",
    binary_time_limit: Annotated[
        float | None,
        _equality(
            min=0,
            metavar="SECONDS",
            help="seconds of processor time for the proof of one binary; 0: no binary is run or proved",
            show_default="by --effort",
        ),
    ] = None,
    remember: Annotated[
        bool,
        _search(
            help="compile: keep the result in the store, and reuse the stored result of an identical search, "
            "which is verified again"
        ),
    ] = True,
    cache: Annotated[
        str | None,
        _search(
            envvar=VARIABLE,
            help="the store of prices and results: a directory, the URL of a store that a team shares, read-only:URL, "
            "or DIRECTORY,URL",
        ),
    ] = None,
    user_rules: Annotated[
        list[str] | None,
        _search(
            help="your own rules: file.py, file.py:NAME, module, module:NAME or an entry point in the group "
            "eqsat.rules; they are checked first (see `eqsat check-rules`); may be repeated"
        ),
    ] = None,
) -> Any:
    """Returns the given `Options`, with the defaults and meanings of `Options`."""
    given = {k: v for k, v in locals().items() if k not in ("rules", "user_rules")}
    from eqsat.checking import user_rules as own
    from eqsat.options.options import AS_STOCK, Options, parse

    for field in AS_STOCK:
        parse(given[field], field, called=f"--{field.replace('_', '-')}")
    return Options(**given, preset=rules, rules=own.load_all(user_rules or ()))


#: The parameters of commands by name.
OPTIONS = dict(inspect.signature(_options, eval_str=True).parameters)


def takes(**makers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces parameters of a command, by name, by those of functions that make their values.

    The command gets each of these functions with its arguments bound.
    """
    parts = {name: inspect.signature(maker, eval_str=True).parameters.values() for name, maker in makers.items()}

    def changed(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            for name, maker in makers.items():
                given[name] = functools.partial(maker, **{p.name: given.pop(p.name) for p in parts[name]})
            command(**given)

        return with_parameters(wrapped, [new for p in own for new in parts.get(p.name, [p])])

    return changed


#: Replaces the parameter `options` of a command by OPTIONS; the command gets an OptionsMaker.
takes_options = takes(options=_options)


def with_parameters(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Returns a function that takes any arguments as a command with these parameters."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command
