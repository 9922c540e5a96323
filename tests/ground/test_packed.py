"""Small files that stand for endless ones are refused, and all that is written can be read."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest

from eqsat.ground.packed import UnpackError, pack_arrays, pack_json, unpack_arrays, unpack_json
from extraction import InvalidGraph
from extraction.io import load

LARGE = 8 << 20


def zeros(members: int) -> bytes:
    """An archive of arrays that say they are 16 MiB each, in 16 kB."""
    out = io.BytesIO()
    np.savez_compressed(out, **{f"a{i}": np.zeros(16 << 20, np.uint8) for i in range(members)})
    return out.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_bomb_is_refused_where_its_limit_is_passed(pack, tmp_path: Path) -> None:
    bomb = pack(b"[" + b"0," * LARGE + b"0]")
    assert len(bomb) < LARGE // 100
    with pytest.raises(UnpackError, match="unpacks to more than 4,194,304 bytes"):
        unpack_json(bomb)
    (tmp_path / "graph.json.gz").write_bytes(bomb)
    with pytest.raises(InvalidGraph, match="graph.json.gz cannot be read: it unpacks to more"):
        load(tmp_path / "graph.json.gz")


def test_a_bomb_of_arrays_is_refused() -> None:
    with pytest.raises(UnpackError, match="unpacks to more than 67,108,864 bytes"):
        unpack_arrays(zeros(5))
    assert len(unpack_arrays(zeros(1))) == 1


def test_an_array_that_says_it_is_larger_than_memory_is_refused() -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 50,)})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", header.getvalue())
    with pytest.raises(UnpackError, match="no .npz of arrays"):
        unpack_arrays(out.getvalue())


def test_arrays_are_read_without_a_parser_that_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ast` of CPython 3.11.7 fails where two threads parse at once, and numpy reads headers by it."""
    monkeypatch.delattr("ast.parse")
    arrays = {
        "scalar": np.float32(2.5),
        "empty": np.zeros((0, 3), np.int64),
        "rows": np.arange(6, dtype=np.int8).reshape(1, 2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "text": np.array(["a", "bc"]),
    }
    out = io.BytesIO()
    np.savez(out, **arrays)
    for packed in (out.getvalue(), pack_arrays(arrays)):
        for name, found in unpack_arrays(packed).items():
            assert found.dtype == arrays[name].dtype and found.shape == arrays[name].shape and found.flags.writeable
            assert (found == arrays[name]).all()


@pytest.mark.parametrize(
    "array",
    [np.array([{}, None]), np.array([{}], object), np.zeros(2, [("a", "i1"), ("b", "f4")])],
    ids=["pickle", "one", "fields"],
)
def test_arrays_of_other_things_than_numbers_are_refused(array) -> None:
    out = io.BytesIO()
    np.savez(out, allow_pickle=True, a=array)
    with pytest.raises(UnpackError, match="no .npz of arrays: ValueError: an array"):
        unpack_arrays(out.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[" * 1_000_000,
        b"\xff\xfe",
        gzip.compress(b"[]", mtime=0)[:-3],
        lzma.compress(b"[]")[:-3],
        b"\x1f\x8b",
        b"\xfd7zXZ\0",
    ],
    ids=["empty", "cut", "deep", "no text", "gzip cut", "xz cut", "gzip head", "xz head"],
)
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(UnpackError, match="truncated or corrupted"):
        unpack_json(data)
    with pytest.raises(UnpackError, match="no .npz of arrays"):
        unpack_arrays(data)


@pytest.mark.parametrize("xz", [False, True])
@pytest.mark.parametrize("value", [None, {"a": [1, 2.5, "text"]}, [0] * (LARGE // 4)], ids=["none", "some", "alike"])
def test_what_is_written_can_be_read(value, xz: bool) -> None:
    packed = pack_json(value, xz)
    assert unpack_json(packed) == value
    if not xz:
        assert json.loads(gzip.decompress(packed)) == value


def test_arrays_that_are_written_can_be_read() -> None:
    arrays = {"zeros": np.zeros(65 << 20, np.int8), "one": np.arange(5)}
    back = unpack_arrays(pack_arrays(arrays))
    assert back.keys() == arrays.keys() and all(np.array_equal(back[k], a) for k, a in arrays.items())
    assert unpack_arrays(pack_arrays(arrays), lambda name: name == "one").keys() == {"one"}
    assert unpack_arrays(pack_arrays({})) == {}
