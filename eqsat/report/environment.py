"""The common parts of all pages: templates, filters of figures, one style sheet and one script.

They are inside each page, which fetches nothing.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from eqsat.ground.files import InputError

if TYPE_CHECKING:
    import jinja2


def check_libraries() -> None:
    """Raises InputError with the remedy if a library for pages is missing."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as e:
        raise InputError(f"the report needs {e.name}: pip install 'eqsat[plots]'") from e


def environment() -> jinja2.Environment:
    """Returns the environment of the templates of pages. Raises InputError as `check_libraries` does."""
    check_libraries()
    import jinja2

    made = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=jinja2.PackageLoader("eqsat.report")
    )
    made.filters.update(number=number, ratio=ratio, share=share, error=error, kib=kib)
    script = made.loader.get_source(made, "page.js")[0].strip() if made.loader else ""
    # only the page's own script may run: its digest is in the page's security policy
    made.globals["script"] = script
    made.globals["digest"] = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return made


def error(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}"


def number(x: float | None) -> str:
    return "-" if x is None else f"{x:,.0f}"


def ratio(x: float | None) -> str:
    return "" if x is None else f"{x:.3f}"


def share(x: float | None) -> str:
    return "" if x is None else f"{x:.1%}"


def kib(size: float | None) -> str:
    """Returns bytes as KiB."""
    return "-" if size is None else f"{size / 1024:,.1f}"
