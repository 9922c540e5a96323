"""Runs on disk.

    result = eqsat.optimize_tosa(tosa, target)
    eqsat.runs.save(result, "run")                        # or: eqsat optimize in.tosa ... --save run
    run = eqsat.runs.load("run")                          # what it can do: eqsat/search/result.py

Rules are code, so only their names are saved.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqsat.ground.files import InputError, OutputError, beside, check_directory, is_file_name, placing
from eqsat.ground.packed import pack_json, unpack_json
from eqsat.runs import codec
from eqsat.search.result import Result, Run
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.vela.defects import Copy, remedies
from eqsat.vela.facts import PACKAGE
from eqsat.vela.table import Row

# The directory is written whole or not at all, and read only if nothing is missing or changed: manifest.json holds the
# format's name and version, the caller's information, the size and SHA-256 of every file, and a SHA-256 of itself.

FORMAT, VERSION = "eqsat-run", 3
MANIFEST = "manifest.json"


class ArchiveError(InputError):
    """A directory that is not an intact saved run of this version. The message names the file and the remedy."""


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write(place: Path, info: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Writes the directory beside `place` and renames it there; an older run is replaced.

    info: the caller's JSON object. files: contents by name.
    Raises InputError if `place` is something else, OutputError if it cannot be written.
    """
    place = Path(os.path.abspath(place))
    check_place(place)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "info": info,
        "files": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        },
    }
    manifest = json.dumps({**content, "seal": _seal(content)}, indent=1).encode()
    try:
        with beside(place) as temporary:
            new, old = temporary / "new", temporary / "old"
            new.mkdir(parents=True)
            for name, data in {**files, MANIFEST: manifest}.items():
                with (new / name).open("wb") as f:
                    f.write(data)
                    f.flush()
                    os.fsync(f.fileno())
            with placing(place):
                if place.exists():
                    os.replace(place, old)
                os.replace(new, place)
    except OSError as e:
        raise OutputError(f"cannot write {place}: {e.strerror or e}; choose a writable place") from e


def check_place(place: Path) -> None:
    """Raises InputError if a run cannot be saved at `place`, so that no work is lost."""
    check_directory(place.absolute().parent, "--save")
    try:
        found = sorted(p.name for p in place.iterdir()) if place.exists() else []
    except OSError as e:  # a file, or a directory that cannot be read
        raise InputError(f"{place} exists and is no {FORMAT} ({e.strerror or e}): choose another place") from e
    ours = _names(place)
    if found and not ours:
        raise InputError(f"{place} exists and is no {FORMAT}: choose another place")
    if others := [name for name in found if name not in ours]:  # the run is replaced as a whole
        raise InputError(f"{place} has {others[0]}, which is no part of the saved run: move it or choose another place")


def _names(place: Path) -> set[str]:
    """Returns the names of the files of a saved run, empty if there is none."""
    try:
        content = json.loads((place / MANIFEST).read_bytes())
        return {MANIFEST, *content["files"]} if content["format"] == FORMAT else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def read(place: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns (information, files) of a saved run. Raises ArchiveError."""

    def broken(what: str) -> ArchiveError:
        return ArchiveError(f"{place}: {what}; save it again")

    try:
        raw = (place / MANIFEST).read_bytes()
    except OSError as e:
        raise ArchiveError(f"{place} is no {FORMAT}: {MANIFEST} cannot be read ({e.strerror or e})") from e
    try:
        content = json.loads(raw)
        seal = content.pop("seal")
        found, theirs, info = content["format"], content["version"], content["info"]
        listed = {name: (entry["bytes"], entry["sha256"]) for name, entry in content["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise broken(f"{MANIFEST} is truncated or was edited") from e
    if (found, theirs) != (FORMAT, VERSION):
        raise ArchiveError(f"{place} is {found!r} version {theirs!r}; this eqsat reads {FORMAT!r} version {VERSION}")
    if seal != _seal(content):
        raise broken(f"{MANIFEST} was edited")
    files = {}
    for name, (size, digest) in listed.items():
        if not is_file_name(name):
            raise broken(f"{MANIFEST} names a file elsewhere")
        try:
            files[name] = (place / name).read_bytes()
        except OSError as e:
            raise broken(f"{name} cannot be read ({e.strerror or e})") from e
        if len(files[name]) != size or hashlib.sha256(files[name]).hexdigest() != digest:
            raise broken(f"{name} is truncated or was edited")
    return info, files


def save(what: Run | Result, place: str | Path) -> None:
    """Writes a run, or a result's run, to a directory, whole or not at all. Raises InputError and OutputError."""
    run = what if isinstance(what, Run) else what.run_or_error()
    info = {
        "name": run.name,
        "target": {"accelerator": run.target.accelerator, "flags": list(run.target.flags)},
        "chosen": run.chosen,
        "choice": sorted(run.choice.items()),
        "rules": list(run.rules),
        "options": run.options,
        "result": run.result,
        "versions": run.versions,
    }
    files = {f"{k}.tosa": v for k, v in run.graphs.items()}
    files["tables.json.gz"] = pack_json({k: [r.record() for r in rows] for k, rows in run.tables.items()})
    write(Path(place), info, {**files, **codec.write(run.choices)})


def load(place: str | Path) -> Run:
    """Returns a saved run. Raises ArchiveError if it is none, or of another version, incomplete or changed."""
    info, files = read(Path(place))
    try:
        graphs = {name.removesuffix(".tosa"): data for name, data in files.items() if name.endswith(".tosa")}
        source = loads(graphs["explicit"], f"{place}/explicit.tosa")
        target = Target(info["target"]["accelerator"], tuple(info["target"]["flags"]))
        run = Run(
            info["name"],
            target,
            graphs,
            info["chosen"],
            codec.read(files, source, remedies(Copy, target.family, info["versions"][PACKAGE])),
            dict(info["choice"]),
            info["rules"],
            info["options"],
            info["result"],
            {k: list(map(Row.read, rows)) for k, rows in unpack_json(files["tables.json.gz"]).items()},
            info["versions"],
        )
        if run.choice:  # a run whose prices were replaced has none
            run.cost()
        return run
    except Exception as e:  # noqa: BLE001 - a damaged file may raise anything, from zlib to numpy
        raise ArchiveError(
            f"{place}: its content does not fit together ({type(e).__name__}: {e}); save it again"
        ) from e
