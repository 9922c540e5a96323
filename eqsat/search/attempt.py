"""Steps that may fail: a failure loses candidates, but never the result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from eqsat.ground.files import PluginError
from eqsat.options.plugins import plugin_error
from eqsat.search.interruption import SearchInterrupted
from eqsat.search.search import Search

logger = logging.getLogger(__name__)

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def attempt(
    search: Search, step: Callable[_Given, _Found], *given: _Given.args, **named: _Given.kwargs
) -> _Found | None:
    """Returns the result of a step.

    Returns None, with a warning, if the step fails, and None if the search is interrupted.
    Raises PluginError if the user's own code is at fault.
    """
    try:
        return step(*given, **named)
    except SearchInterrupted:
        return None
    except PluginError:
        raise
    except Exception as e:  # noqa: BLE001 - whatever it is
        if (mistake := plugin_error(e, search.options)) is not None:
            raise mistake from e
        logger.debug("no alternatives were found", exc_info=True)
        search.warnings.append(f"no alternatives were found: {type(e).__name__}: {e}")
        return None
