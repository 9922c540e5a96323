"""The page of the keys of `--json` has every key that the commands print, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docs import keys
from tests.command import ROOT, UPSCALE, run

pytestmark = pytest.mark.slow


def printed(*arguments: object) -> dict[str, Any]:
    done = run(*arguments, "-t", "ethos-u55-128", "--effort", "1", "--json")
    assert done.exit_code in (0, 4), done.output
    return json.loads(done.stdout)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a key: itself, those of a list, or those of both sides."""
    if isinstance(value, list):
        return [found for one in value for found in objects(one)]
    if isinstance(value, dict) and value.keys() == {"stock", "eqsat"}:
        return objects(list(value.values()))
    return [value] if isinstance(value, dict) else []


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    place = tmp_path_factory.mktemp("keys")
    source = ROOT / "examples" / "upscale.tosa"
    return {
        "optimize": printed("optimize", source, "-o", place / "out.tosa", "--max-sram", 1024),
        "compile": printed("compile", UPSCALE, "-o", place / "out.pte", "--max-sram", 1024),
    }


@pytest.mark.parametrize("command, own", [("optimize", keys.OPTIMIZE), ("compile", keys.COMPILE)])
def test_every_key_is_described(command: str, own: dict[str, str], records: dict[str, dict[str, Any]]) -> None:
    assert sorted(records[command]) == sorted({**keys.BOTH, **keys.EACH, **own})
    several = {k for k in keys.EACH if isinstance(records[command][k], list)}
    assert several == set(keys.EACH) if command == "compile" else several < set(keys.EACH)


def test_every_key_of_an_object_within_is_described(records: dict[str, dict[str, Any]]) -> None:
    told = keys.nested()
    for key, described in told.items():
        found = [o for record in records.values() for o in objects(record.get(key))]
        assert {k for o in found for k in o} <= described.keys()
        assert found == [] or {k for o in found for k in o} == described.keys()
    without = [k for k in told if not any(objects(r.get(k)) for r in records.values())]
    assert without == ["channel_steps", "border_transposes"]
