"""What all records say of themselves."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path

from eqsat.bench.fingerprint import digest, fingerprint, submodules
from eqsat.bench.log import Log, Record
from eqsat.ground.versions import commit

__all__ = ["VELA", "Record", "about", "opened"]

VELA = version("ethos-u-vela")


@cache
def sources() -> str:
    """Of the code that the records depend on."""
    return digest(fingerprint([*submodules("eqsat/device"), "eqsat.checking.random_graphs", "eqsat.tensor.samples"]))


@cache
def about() -> Record:
    """The commit, which the records themselves change where they are written into the checkout."""
    return {"commit": commit(), "sources": sources()}


def opened(path: Path, *identity: str) -> Log:
    """Those of other sources are dropped."""
    return Log(path, itemgetter(*identity), lambda r: r.get("sources") == sources())
