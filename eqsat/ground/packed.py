"""Packed data from files that anybody may have written: a small file does not stand for an endless one.

>>> unpack_json(pack_json([1, 2]))
[1, 2]

What is unpacked may have so many bytes per packed byte, and so many in any case. What packs better, such as zeros, is
written without compression, so that everything that is written here can be read here.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Bytes per packed byte: of gzip files, of which saved runs have 3 to 16, of xz files, of which outlines have 26 to 40,
#: and of arrays.
_GZIP, _XZ, _NPZ = 50, 100, 50
#: Bytes that any file may unpack to. Of JSON less, as its values take up to 24 times the bytes of their text.
_LEAST_JSON, _LEAST_ARRAYS = 4 << 20, 64 << 20
#: Bytes that lzma may take for its own; those of its default preset are 9 MiB.
_XZ_MEMORY = 128 << 20


class UnpackError(ValueError):
    """Packed data that is damaged, or unpacks to more than it may; the message says which."""


def pack_json(value: Any, xz: bool = False) -> bytes:
    """JSON, by gzip or by xz."""
    text = json.dumps(value, separators=(",", ":")).encode()
    packed = lzma.compress(text) if xz else gzip.compress(text, 6, mtime=0)
    if len(text) <= _most(packed, _XZ if xz else _GZIP, _LEAST_JSON):
        return packed
    return text if xz else gzip.compress(text, 0, mtime=0)


def unpack_json(data: bytes) -> Any:
    """The value of JSON, packed by gzip, by xz or not at all. Raises UnpackError."""
    try:
        if data[:2] == b"\x1f\x8b":
            data = _gunzip(data)
        elif data[:6] == b"\xfd7zXZ\0":
            data = _unxz(data)
        return json.loads(data)
    except UnpackError:
        raise
    except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError, RecursionError, MemoryError) as e:
        raise UnpackError(f"truncated or corrupted ({type(e).__name__}: {e})") from e


def pack_arrays(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Arrays by name, as an .npz."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    if sum(a.nbytes for a in arrays.values()) > _most(out.getvalue(), _NPZ, _LEAST_ARRAYS):
        out = io.BytesIO()
        np.savez(out, **arrays)
    return out.getvalue()


def unpack_arrays(data: bytes, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays by name of an .npz without pickles, those whose names are wanted. Raises UnpackError."""
    try:
        check_zip(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if wanted(name)}
    except UnpackError:
        raise
    except Exception as e:  # noqa: BLE001 - what a damaged file raises, from zipfile to numpy, has no end
        raise UnpackError(f"no .npz of arrays: {type(e).__name__}: {e}") from e


def check_zip(data: bytes) -> None:
    """Refuses an archive whose files say that they unpack to more than they may. Raises UnpackError, BadZipFile."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _check(sum(entry.file_size for entry in archive.infolist()), _most(data, _NPZ, _LEAST_ARRAYS))


def _gunzip(data: bytes) -> bytes:
    most = _most(data, _GZIP, _LEAST_JSON)
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        out = file.read(most + 1)
    _check(len(out), most)
    return out


def _unxz(data: bytes) -> bytes:
    most = _most(data, _XZ, _LEAST_JSON)
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    out = decompressor.decompress(data, most + 1)
    if len(out) <= most and not decompressor.eof:
        raise EOFError("the file ends early")
    _check(len(out), most)
    return out


def _most(packed: bytes, ratio: int, least: int) -> int:
    """Bytes that packed data may unpack to."""
    return max(least, ratio * len(packed))


def _check(size: int, most: int) -> None:
    if size > most:
        raise UnpackError(f"it unpacks to more than {most:,} bytes")
