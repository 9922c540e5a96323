"""Packed data from files of unknown origin: a small file cannot unpack to an endless one.

>>> unpack_json(pack_json([1, 2]))
[1, 2]

Unpacked data may have a limited number of bytes per packed byte, and a minimum in any case.
Data that packs better, such as zeros, is written without compression, so all that is written here can be read here.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

#: Bytes per packed byte of a gzip file, at most; saved runs have 3 to 16.
_GZIP = 50
#: Bytes per packed byte of an xz file, at most; outlines have 26 to 40.
_XZ = 100
#: Bytes per packed byte of an .npz, at most.
_NPZ = 50
#: Bytes that any JSON may unpack to: its values take up to 24 times the bytes of their text.
_LEAST_JSON = 4 << 20
#: Bytes that any .npz may unpack to.
_LEAST_ARRAYS = 64 << 20
#: Bytes that hold the size of an .npy file's header, by the file's first bytes, and a header of one dtype without
#: fields (numpy.lib.format).
_NPY_SIZES = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4, b"\x93NUMPY\x03\x00": 4}
_NPY_HEADER = re.compile(rb"\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \}\s*")
#: Bytes of memory that lzma may use; its default preset uses 9 MiB.
_XZ_MEMORY = 128 << 20


class UnpackError(ValueError):
    """Packed data that is damaged, or unpacks to more than is allowed; the message says which."""


def pack_json(value: Any, xz: bool = False) -> bytes:
    """Returns a value as JSON, packed by gzip, or by xz."""
    text = json.dumps(value, separators=(",", ":")).encode()
    packed = lzma.compress(text) if xz else gzip.compress(text, 6, mtime=0)
    if len(text) <= _most(packed, _XZ if xz else _GZIP, _LEAST_JSON):
        return packed
    return text if xz else gzip.compress(text, 0, mtime=0)


def unpack_json(data: bytes) -> Any:
    """Returns the value of JSON that is packed by gzip, by xz or not at all. Raises UnpackError."""
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
    """Returns arrays by name as an .npz; `numpy.savez` does not take any name."""
    packed = _npz(arrays, zipfile.ZIP_DEFLATED)
    is_allowed = sum(a.nbytes for a in arrays.values()) <= _most(packed, _NPZ, _LEAST_ARRAYS)
    return packed if is_allowed else _npz(arrays, zipfile.ZIP_STORED)


def _npz(arrays: Mapping[str, np.ndarray[Any, Any]], compression: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, data, allow_pickle=False)  # type: ignore[no-untyped-call]
    return out.getvalue()


def unpack_arrays(data: bytes, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray[Any, Any]]:
    """Returns {name: array} of an .npz without pickles, for the names that `wanted` accepts. Raises UnpackError."""
    try:
        check_zip(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = {entry.removesuffix(".npy"): entry for entry in archive.namelist()}
            return {name: _array(archive.read(entry)) for name, entry in names.items() if wanted(name)}
    except UnpackError:
        raise
    except Exception as e:  # noqa: BLE001 - a damaged file can raise anything, from zipfile to numpy
        raise UnpackError(f"no .npz of arrays: {type(e).__name__}: {e}") from e


def _array(data: bytes) -> np.ndarray[Any, Any]:
    """Returns the array of an .npy file.

    numpy's own reader parses the header by `ast`, which may fail in CPython before 3.11.8 and 3.12.2 when another
    thread parses something too (python/cpython#106905).
    """
    size = _NPY_SIZES.get(data[:8], 0)
    start = 8 + size + int.from_bytes(data[8 : 8 + size], "little")
    header = _NPY_HEADER.fullmatch(data[8 + size : start])
    if header is None:
        raise ValueError("an array without the header of one dtype")
    dtype, shape = np.dtype(header[1].decode()), tuple(int(n) for n in header[3].split(b",") if n.strip())
    if dtype.hasobject:
        raise ValueError("an array of objects")
    array = np.frombuffer(data, dtype, prod(shape), start) if prod(shape) else np.zeros(0, dtype)
    return array.reshape(shape, order="F" if header[2] == b"True" else "C").copy()


def check_zip(data: bytes) -> None:
    """Raises UnpackError for an archive that would unpack to more than is allowed, and BadZipFile."""
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
    """Returns the bytes that packed data may unpack to."""
    return max(least, ratio * len(packed))


def _check(size: int, most: int) -> None:
    if size > most:
        raise UnpackError(f"it unpacks to more than {most:,} bytes")
