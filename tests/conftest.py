"""Worker processes shared by all tests, and prices that never touch the user's cache."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from eqsat.ground.worker import Pool, Worker
from tests import sweeps

if TYPE_CHECKING:
    from cost_models.cache import PriceCache

# Compiled modules are kept, as tests start many processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Small tensors gain nothing from more threads, and threads of several processes that wait for each other in a loop cost
# four times as much.
# Before torch is imported; processes that tests start have it too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Among the two million objects of PyTorch and ExecuTorch the search for garbage took an eighth of the time.
gc.set_threshold(50_000)
#: Every run tries the same examples.
settings.register_profile("same", derandomize=True, database=None)
settings.load_profile("same")
# a shell's background jobs ignore Ctrl-C, and so would the processes that tests interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="run all parts of sweeps, of which the suite takes one")


def pytest_configure(config: pytest.Config) -> None:
    sweeps.exhaustive = config.getoption("exhaustive")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what --exhaustive alone runs."""
    if not sweeps.exhaustive:
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("exhaustive")])
        items[:] = [i for i in items if not i.get_closest_marker("exhaustive")]


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """One process with Vela and the reference model."""
    with Worker() as w:
        yield w


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    with Pool(1) as p:
        yield p


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQSAT_CACHE", str(tmp_path_factory.mktemp("prices")))
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, for commands that run in this process and for modules of a user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    return tmp_path


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for all processes of pytest."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def prices(shared: Path) -> Iterator[PriceCache]:
    """Prices of operators that several tests ask for; nobody is told who measured them."""
    from cost_models.cache import PriceCache

    cache = PriceCache(shared / "shared_prices")
    yield cache
    cache.close()


@pytest.fixture(scope="session")
def zoo_run(shared: Path, _own_cache: None) -> Path:
    """A benchmark run of one small model of the zoo on an Ethos-U85, for all processes of pytest.

    No test may write into it.
    """
    from eqsat.bench import run

    out = shared / "zoo_run"
    with out.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            run(["pixel_shuffle"], ["ethos-u85-256"], ["stock", "stock-without-layout-passes", "eqsat"], out)
    return out
