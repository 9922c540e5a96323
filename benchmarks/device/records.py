"""The part that all records have."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path

from eqsat.bench.fingerprint import digest, fingerprint, submodules
from eqsat.bench.log import Log, Record
from eqsat.ground.versions import PACKAGES, commit

__all__ = ["VELA", "Record", "about", "opened"]

#: The installed version of Vela.
VELA = version("ethos-u-vela")


@cache
def sources() -> str:
    """Returns a digest of the code on which the records depend."""
    return digest(
        fingerprint(
            [*submodules("eqsat/device"), "tests.random_graphs", "eqsat.tensor.samples"], packages=(*PACKAGES, "tests")
        )
    )


@cache
def about() -> Record:
    """Returns the commit and the digest of the sources.

    It is computed once, because records that are written into the checkout change the commit.
    """
    return {"commit": commit(), "sources": sources()}


def opened(path: Path, *identity: str) -> Log:
    """Returns the log of a file; records of other sources are dropped."""
    return Log(path, itemgetter(*identity), lambda r: r.get("sources") == sources())
