"""Certificates: JSON records of a proof of two files, from which anybody can repeat the proof."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eqsat.ground.files import InputError
from eqsat.proof.prove import PROVED, Proof

#: Format number of a certificate. Keys may be added without a new number.
FORMAT = 1


class CertificateError(InputError):
    """A certificate that cannot be checked; the message says why."""


def digest(data: bytes) -> str:
    """Returns the SHA-256 in hexadecimal, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


def certificate(
    proof: Proof, files: tuple[Path, Path], data: tuple[bytes, bytes], place: Path, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the certificate of a proof of two files, to be written to `place`, from whose directory it names them.

    files, data: the paths and the bytes of the two files.
    """
    names = (os.path.relpath(f.resolve(), place.resolve().parent) for f in files)
    return {
        "certificate": FORMAT,
        "files": [{"name": n, "sha256": digest(d)} for n, d in zip(names, data)],
        "verdict": proof.verdict,
        "undecided": [asdict(u) for u in proof.undecided],
        "error_bound": proof.error_bound,
        "seeds": list(proof.seeds),
        "seconds": round(proof.seconds, 3),
        "versions": dict(versions),
    }


def files_of(written: Any, place: Path) -> tuple[Path, Path]:
    """Returns the two files of a certificate, after comparing their SHA-256 with it.

    written: the parsed certificate. place: its path.
    Raises CertificateError if it is none, proves nothing, or if a file is missing or changed.
    """
    try:
        known, verdict, entries = written["certificate"], written["verdict"], written["files"]
        named = [(place.parent / e["name"], e["sha256"]) for e in entries]
    except (KeyError, TypeError) as e:
        raise CertificateError(f"{place} is no certificate: write one with eqsat prove --certificate") from e
    if known != FORMAT or len(named) != 2:
        raise CertificateError(f"{place} is a certificate of format {known!s:.20}; this version reads {FORMAT}")
    if verdict != PROVED:
        raise CertificateError(f"{place} certifies nothing: its verdict is {verdict!r:.40}")
    for path, expected in named:
        try:
            if path.exists() and not path.is_file():
                raise CertificateError(f"{path}, which {place} is about, is no file")
            found = digest(path.read_bytes())
        except CertificateError:
            raise
        except (OSError, ValueError) as e:
            reason = getattr(e, "strerror", None) or e
            raise CertificateError(f"cannot read {path!s:.300}, which {place} is about: {reason}") from e
        if found != expected:
            raise CertificateError(
                f"{path} is not the file that {place} is about: its SHA-256 is {found}, not {expected!s:.64}"
            )
    return named[0][0], named[1][0]
