"""`eqsat cache`: the store of prices and results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqsat.cli.common import App, Group, JsonOption, app, console, print_json
from eqsat.ground.files import InputError, check_outputs
from eqsat.store.local import VARIABLE

if TYPE_CHECKING:
    from eqsat.store.store import Store

cache_app = App(
    cls=Group, no_args_is_help=True, help="Inspect, clear or move the store of measured prices and results."
)
app.add_typer(cache_app, name="cache")

PlaceOption = Annotated[
    str | None, typer.Option("--cache", envvar=VARIABLE, help="the store, in the same form as for `eqsat optimize`")
]


@cache_app.command("info")
def info(as_json: JsonOption = False, cache: PlaceOption = None) -> None:
    """Show where prices and results are stored, how many there are, and how much space they take."""
    from eqsat.store.store import ANSWERS, PRICES, Store

    with closing(Store(cache)) as store:
        local, setting = store.local, store.setting
        (prices, _), (answers, size) = local.size(PRICES), local.size(ANSWERS)
        found = {"entries": prices, "limit": PRICES.entries, "bytes": local.bytes(), "failure": local.failure}
    if as_json:
        shared = {"shared": setting.url, "read_only": setting.read_only}
        print_json({"path": str(local.path), **found, "answers": answers, "answer_bytes": size, **shared})
        return
    state = f"cannot be used: {local.failure}" if local.failure else f"{found['bytes']:,} bytes"
    behind = f"\nshared{', read only' if setting.read_only else ''}: {setting.url}" if setting.url else ""
    console.say(
        f"{local.path}\n{prices:,} of at most {PRICES.entries:,} prices, {state}\n"
        f"{answers:,} stored results, {size:,} bytes{behind}"
    )


@cache_app.command("clear")
def clear(cache: PlaceOption = None) -> None:
    """Delete the prices (estimated cycles of operators) and results that are stored on this machine; eqsat computes
    them again when it needs them."""
    from eqsat.store.store import ANSWERS, PRICES

    with _usable(cache) as store:
        entries, answers = (store.local.size(kind)[0] for kind in (PRICES, ANSWERS))
        store.local.clear()
    console.say(f"{store.local.path}\n{entries:,} prices and {answers:,} results deleted")


@cache_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="the file to write, for another machine")], cache: PlaceOption = None
) -> None:
    """Write all prices and results that are stored on this machine to one file."""
    from eqsat.store.store import export

    with _usable(cache) as store:
        check_outputs({"FILE": file}, [store.local.path])
        count = export(store.local, file)
    console.say(f"{count:,} entries in {file}")


@cache_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="a file that `eqsat cache export` wrote")], cache: PlaceOption = None
) -> None:
    """Import the prices and results of a file; each entry is checked."""
    from eqsat.store.store import import_entries

    with _usable(cache) as store:
        taken, refused = import_entries(store.local, file)
    damaged = f", {refused:,} damaged ones left out" if refused else ""
    console.say(f"{taken:,} entries taken from {file}{damaged}")


@contextmanager
def _usable(place: str | None) -> Iterator[Store]:
    """Yields the store at a place, which must be usable before and after."""
    from eqsat.store.store import Store

    with closing(Store(place)) as store:
        _check(store)
        yield store
        _check(store)


def _check(store: Store) -> None:
    if failure := store.local.failure:
        raise InputError(f"the store {store.local.path} cannot be used: {failure}; choose another place with --cache")
