"""Digests of what is made of several parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest(parts: Iterable[bytes]) -> str:
    """Returns 32 hexadecimal digits of a hash of parts; it depends on where each part ends."""
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "little") + part)
    return h.hexdigest()[:32]
