"""Outputs are whole or absent and replace no device; temporary directories go with their processes."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from eqsat.ground import files
from eqsat.ground.files import InputError, OutputError, check_distinct, check_output, check_outputs, write_atomically
from eqsat.ground.packed import UnpackError, pack_arrays, pack_json, unpack_arrays, unpack_json
from extraction import InvalidGraph
from extraction.io import load
from tests.command import ROOT


def test_an_output_has_the_permissions_that_the_user_gives_to_new_files(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "private", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    write_atomically(tmp_path / "usual", b"x")
    assert stat.S_IMODE((tmp_path / "usual").stat().st_mode) == 0o666 & ~before


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    check_output(pipe)
    write_atomically(pipe, b"through it")
    reader.join(10)
    assert got == [b"through it"] and stat.S_ISFIFO(pipe.stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_device_that_is_full_is_an_error_and_stays() -> None:
    check_output(Path("/dev/full"))
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left"):
        write_atomically(Path("/dev/full"), b"x" * 100_000)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_name_that_no_file_can_have_is_an_error() -> None:
    with pytest.raises(InputError, match="cannot read .*null"):
        files.read_bytes(Path("a\0b"))


def test_a_refused_place_names_its_option_and_what_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="missing does not exist: make it first or choose another place with --report"):
        check_output(tmp_path / "missing" / "x.html", "--report")
    for below in ("file/x", "file/y/x"):
        with pytest.raises(InputError, match="file is no directory: choose another place with -o"):
            check_output(tmp_path / below)


@pytest.mark.parametrize("check", [check_output, files.check_directory, files.check_input])
def test_a_place_that_cannot_be_looked_at_is_bad_input(check, tmp_path: Path) -> None:
    """A name that is too long fails as a closed directory does, also for root."""
    for place in (tmp_path / ("x" * 300), tmp_path / ("x" * 300) / "y"):
        with pytest.raises(InputError, match="File name too long"):
            check(place)


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("x" * 255), b"whole")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("outputs", "taken"),
    [
        ({"-o": "a", "--report": "b"}, ""),
        ({"-o": "/dev/null", "--report": "/dev/null"}, ""),
        ({"-o": "a", "--report": None}, ""),
        ({"-o": "a", "--report": "d/../a"}, r"a \(-o\)"),
        ({"-o": "run/a", "--save": "run"}, r"run/a \(-o\)"),
        ({"--save": "run", "--report": "run/a"}, r"run \(--save\)"),
        ({"-o": "in"}, "the input in"),
        ({"-o": "link"}, "the input in"),
        ({"--save": "d"}, "the input d/in"),
    ],
)
def test_no_output_takes_the_place_of_another_one_or_of_an_input(
    outputs: dict[str, str | None], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("in")
    places = {option: None if name is None else Path(name) for option, name in outputs.items()}
    if not taken:
        check_distinct(places, [Path("in"), Path("d/in")])
        return
    with pytest.raises(InputError, match=f"and {taken} would be in one place"):
        check_distinct(places, [Path("in"), Path("d/in")])


def test_outputs_are_checked_one_by_one_and_together(tmp_path: Path) -> None:
    place = tmp_path / "a"
    check_outputs({"-o": place, "--report": None}, [tmp_path / "in"])
    with pytest.raises(InputError, match="missing does not exist: .* with --report"):
        check_outputs({"-o": place, "--report": tmp_path / "missing" / "x"})
    with pytest.raises(InputError, match="would be in one place"):
        check_outputs({"-o": place, "--report": place})


KILLED = """
import os, signal, sys
from eqsat.ground.files import make_directory
print(make_directory(sys.argv[1]), flush=True)
sys.stdin.read(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _as_a_new_process() -> None:
    files._remove_dead.cache_clear()


def test_directories_of_killed_processes_go_at_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        (theirs / "file").write_text("facts")
        first = Path(files.make_directory(str(tmp_path)))
        assert theirs.exists() and first.parent == tmp_path  # it is running
        process.communicate("x")
    files._remove_dead.cache_clear()
    second = Path(files.make_directory(str(tmp_path)))
    assert set(tmp_path.iterdir()) == {first, second}


def test_a_process_id_that_is_used_again_is_no_match(tmp_path: Path) -> None:
    old = tmp_path / f"eqsat-{files._system()}-{os.getpid()}-1-abc"
    others = [tmp_path / f"eqsat-00000000-{os.getpid()}-1-abc", tmp_path / "eqsat-abc", tmp_path / "else"]
    for directory in (old, *others):
        directory.mkdir()
    mine = Path(files.make_directory(str(tmp_path)))
    assert set(tmp_path.iterdir()) == {mine, *others}


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
