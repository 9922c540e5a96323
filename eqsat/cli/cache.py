"""`eqsat cache info` and `eqsat cache clear`: measured prices, and answers beside them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from rich.text import Text

from eqsat.cli.common import App, JsonOption, app, console, print_json

cache_app = App(no_args_is_help=True, help="The measured prices and the remembered answers on disk.")
app.add_typer(cache_app, name="cache")


@cache_app.command("info")
def info(as_json: JsonOption = False) -> None:
    """Where prices and answers are, how many, and how much room they take."""
    from cost_models.cache import PriceCache
    from eqsat.search.answer_store import AnswerStore

    with closing(PriceCache()) as cache:
        found = cache.info()
    answers, size = AnswerStore().size()
    if as_json:
        print_json({**asdict(found), "path": str(found.path), "answers": answers, "answer_bytes": size})
    else:
        state = f"cannot be used: {found.failure}" if found.failure else f"{found.bytes:,} bytes"
        console.print(
            Text(
                f"{found.path}\n{found.entries:,} of at most {found.limit:,} prices, {state}\n"
                f"{answers:,} remembered answers, {size:,} bytes"
            ),
            soft_wrap=True,
        )


@cache_app.command("clear")
def clear() -> None:
    """Forget all prices and answers; they are measured and searched for again when they are needed."""
    from cost_models.cache import PriceCache
    from eqsat.search.answer_store import AnswerStore

    with closing(PriceCache()) as cache:
        entries = cache.clear()
        answers = AnswerStore().clear()
        text = f"{cache.path}\n{entries:,} prices and {answers:,} answers forgotten"
        console.print(text, highlight=False, soft_wrap=True)
