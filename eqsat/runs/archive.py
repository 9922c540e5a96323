"""The directory of a saved run: data files with a manifest.

It is written whole or not at all, and read only if nothing is missing or changed: manifest.json holds the format's
name and version, the caller's information, the size and SHA-256 of every file, and a SHA-256 of itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqsat.ground.files import InputError, OutputError, beside, check_directory, is_file_name, placing

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
