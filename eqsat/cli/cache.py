"""`eqsat cache info` and `eqsat cache clear`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from rich.text import Text

from eqsat.cli.common import App, JsonOption, app, console, print_json

cache_app = App(no_args_is_help=True, help="The measured prices on disk.")
app.add_typer(cache_app, name="cache")


@cache_app.command("info")
def info(as_json: JsonOption = False) -> None:
    """Where the prices are, how many, and how much room they take."""
    from cost_models.cache import PriceCache

    with closing(PriceCache()) as cache:
        found = cache.info()
    if as_json:
        print_json({**asdict(found), "path": str(found.path)})
    else:
        state = f"cannot be used: {found.failure}" if found.failure else f"{found.bytes:,} bytes"
        console.print(
            Text(f"{found.path}\n{found.entries:,} of at most {found.limit:,} prices, {state}"), soft_wrap=True
        )


@cache_app.command("clear")
def clear() -> None:
    """Forget all prices; they are measured again when they are needed."""
    from cost_models.cache import PriceCache

    with closing(PriceCache()) as cache:
        entries = cache.clear()
        console.print(f"{cache.path}\n{entries:,} prices forgotten", highlight=False, soft_wrap=True)
