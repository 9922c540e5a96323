"""The command that tells of the store and forgets what it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cost_models.cache import PriceCache
from eqsat.cli.app import app


def test_the_cache_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    cache = PriceCache()
    cache.put({"a": 1, "b": 2})
    cache.close()
    run = CliRunner().invoke
    info = json.loads(run(app, ["cache", "info", "--json"]).output)
    assert info["entries"] == 2 and info["path"].startswith(str(tmp_path)) and info["bytes"] > 0
    assert "2 prices, 0 answers and 0 lowerings forgotten" in run(app, ["cache", "clear"]).output
    assert "0 of at most" in run(app, ["cache", "info"]).output
