"""Disks that are full or not ours to write to, and the cache on them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

from eqsat.tosa import dumps
from tests.drills import TARGET, DrillOutcome, NotPossible, clear_error, drill, eqsat, message
from tests.fuzzing.formats import transposes


@contextlib.contextmanager
def mounted(place: Path, size: str = "256k") -> Iterator[Path]:
    """A small disk of its own. Raises NotPossible."""
    disk = place / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True
    ).returncode:
        raise NotPossible("mounting a disk needs root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], capture_output=True)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as f:
        while f.write(bytes(4096)):
            pass


def _source(place: Path) -> Path:
    path = place / "in.tosa"
    path.write_bytes(dumps(transposes()))
    return path


def _optimize(place: Path, out: Path, preexec=None, **env: str) -> tuple[int, str, str, int]:
    process = eqsat(
        "optimize",
        _source(place),
        "-t",
        TARGET,
        "-o",
        out,
        "--json",
        env={"EQSAT_CACHE": str(place / "cache"), **env},
        preexec=preexec,
    ).start()
    code, stdout, err = process.finish()
    return code, stdout, err, len(process.survivors(5))


def _as_undisturbed(place: Path, out: Path, outcome: tuple[int, str, str, int]) -> DrillOutcome:
    """Whether the result is the one of a calm run."""
    calm = place / "calm.tosa"
    _optimize(place, calm)
    code, _, err, left = outcome
    same = out.exists() and out.read_bytes() == calm.read_bytes()
    return (
        code == 0 and same and not left,
        f"exit code {code}, {'the same result' if same else 'no or another result: ' + message(err)}",
    )


@drill(
    "full disk, output",
    "the .tosa goes to a disk with no byte left, over an older file",
    "one line of error; the old file whole, nothing beside it",
)
def full_output(place: Path) -> DrillOutcome:
    with mounted(place) as disk:
        out = disk / "out.tosa"
        out.write_bytes(b"precious")
        fill(disk)
        code, _, err, left = _optimize(place, out)
        whole = out.read_bytes() == b"precious" and sorted(p.name for p in disk.iterdir()) == ["filler", "out.tosa"]
    return code == 3 and clear_error(
        err
    ) and whole and not left, f"exit code {code}: {message(err)}; the old file is {'whole' if whole else 'damaged'}"


@drill(
    "full disk, cache", "the cache of prices is on a disk with no byte left", "the same result as with an empty cache"
)
def full_cache(place: Path) -> DrillOutcome:
    with mounted(place) as disk:
        fill(disk)
        return _as_undisturbed(
            place, place / "out.tosa", _optimize(place, place / "out.tosa", EQSAT_CACHE=str(disk / "cache"))
        )


@drill(
    "full disk, temporary files",
    "TMPDIR is on a disk with no byte left",
    "a result with a warning, or one line of error; nothing left behind",
)
def full_temporary(place: Path) -> DrillOutcome:
    with mounted(place) as disk:
        fill(disk)
        out = place / "out.tosa"
        code, stdout, err, left = _optimize(place, out, TMPDIR=str(disk))
        beside = [p.name for p in disk.iterdir() if p.name != "filler"]
    well = code == 0 and out.exists() or code in (2, 3) and clear_error(err) and not out.exists()
    said = json.dumps(json.loads(stdout)["warnings"])[:200] if code == 0 else message(err)
    return well and not left and not beside, f"exit code {code}: {said}"


@drill(
    "files of limited size",
    "RLIMIT_FSIZE of 100 bytes: every larger write fails",
    "a result with a warning, or one line of error; no half-written file",
)
def limited_files(place: Path) -> DrillOutcome:
    out = place / "out.tosa"
    code, _stdout, err, left = _optimize(place, out, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    beside = [p.name for p in place.iterdir() if p.name.startswith(".out")]
    well = code in (2, 3) and clear_error(err) and not out.exists() or code == 0 and out.stat().st_size <= 100
    return well and not left and not beside, f"exit code {code}: {message(err) if code else out.stat().st_size}"


@drill(
    "read-only cache directory",
    "the cache is on a disk that is mounted read-only, with prices in it",
    "the same result as undisturbed",
)
def read_only(place: Path) -> DrillOutcome:
    with mounted(place, "4m") as disk:
        _optimize(place, place / "first.tosa", EQSAT_CACHE=str(disk / "cache"))
        if subprocess.run(["mount", "-o", "remount,ro", str(disk)], capture_output=True).returncode:
            raise NotPossible("the disk cannot be mounted read-only")
        return _as_undisturbed(
            place, place / "out.tosa", _optimize(place, place / "out.tosa", EQSAT_CACHE=str(disk / "cache"))
        )


@drill(
    "a cache directory of somebody else",
    "as another user, who may not write to the cache's directory",
    "the same result as undisturbed",
)
def foreign(place: Path) -> DrillOutcome:
    if os.getuid():
        raise NotPossible("becoming another user needs root")
    (place / "cache").mkdir()
    (place / "theirs").mkdir(0o777)
    for p in (place, place / "theirs"):
        p.chmod(0o777)
    (place / "cache").chmod(0o555)
    try:
        outcome = _optimize(place, place / "theirs" / "out.tosa", lambda: os.setuid(65534), HOME=str(place / "theirs"))
    except PermissionError as e:
        raise NotPossible("another user may not run this Python") from e
    (place / "cache").chmod(0o755)
    return _as_undisturbed(place, place / "theirs" / "out.tosa", outcome)


@drill(
    "two processes on one cache",
    "two optimizations start at once with one empty cache",
    "both give the same result as undisturbed",
)
def two_processes(place: Path) -> DrillOutcome:
    source = _source(place)
    outs = [place / f"out{i}.tosa" for i in range(2)]
    both = [
        eqsat("optimize", source, "-t", TARGET, "-o", out, env={"EQSAT_CACHE": str(place / "shared")}).start()
        for out in outs
    ]
    ends = [p.finish() for p in both]
    checked = [_as_undisturbed(place, out, (*end, len(p.survivors(5)))) for out, end, p in zip(outs, ends, both)]
    return all(ok for ok, _ in checked), "; ".join(text for _, text in checked)


@drill(
    "corrupted cache", "the store is overwritten with noise, all but its first bytes", "the same result as undisturbed"
)
def corrupted(place: Path) -> DrillOutcome:
    _optimize(place, place / "first.tosa")
    path = place / "cache" / "store.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[:16] + b"noise" * (len(content) // 5))
    return _as_undisturbed(place, place / "out.tosa", _optimize(place, place / "out.tosa"))
