"""Whatever the bytes of a file are, it is read or refused with a named error: a strategy for each format."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cost_models.cache import PriceCache
from eqsat import runs
from eqsat.bench.records import RunFiles, read_outlines
from eqsat.checking.random_graphs import random_graph as small_graph
from eqsat.cli.prove import _paths
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.weight_stream import decode
from eqsat.executorch.binaries import disassemble_model, run_model
from eqsat.executorch.pte import read_external_data
from eqsat.ground.files import InputError
from eqsat.ground.packed import UnpackError, unpack_arrays
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Worker
from eqsat.options.options import Options
from eqsat.proof import prove
from eqsat.proof.prove import certificate
from eqsat.report import RecordedRun, write
from eqsat.runs import saved
from eqsat.runs.codec import CHOICE_GRAPH, outline
from eqsat.runs.saved import ArchiveError
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.recall import AnswerStore, KnownAnswer
from eqsat.store.store import ANSWERS, Store
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.schema import DTYPE_CODE
from eqsat.tosa import TosaError, dumps, loads
from extraction import InvalidGraph
from extraction.io import load
from tests.bench.runs import FIELDS
from tests.command import run_vela
from tests.device.pieces import PIECES, of
from tests.graphs import transposes
from tests.random_graphs import random_graph
from tests.sweeps import examples
from tests.term import finish, graph, inputs, outputs

pytestmark = pytest.mark.slow

#: 32-bit words that offsets, lengths and sizes become.
_WORDS = (0, 1, 3, 4, 0x7F, 0xFF, 0x100, 0xFFFF, 1 << 16, 1 << 24, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
_PRICES = {f"key{i}": float(i) for i in range(60)}
_LIMITS = Limits(20.0, 1500.0)
#: How examples are drawn.
_HOW = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@st.composite
def damaged(draw: st.DrawFn, files: Sequence[bytes]) -> bytes:
    """One of the files with one to three of: bytes set, a word set, cut off, a piece missing, another file's tail."""
    data = draw(st.sampled_from(files))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(("byte", "word", "word", "cut", "gap", "splice"))):
            case "byte":
                data = data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]
            case "word":
                at -= at % 4
                data = data[:at] + draw(st.sampled_from(_WORDS)).to_bytes(4, "little") + data[at + 4 :]
            case "cut":
                data = data[:at]
            case "gap":
                data = data[:at] + data[at + draw(st.integers(1, 64)) :]
            case "splice":
                data = data[:at] + draw(st.sampled_from(files))[at:]
    return data


@dataclass(frozen=True)
class Format:
    """files: makes valid ones. read: reads one; errors: those it may raise. packed: is done with damaged bytes before
    they are read, as damage to what is packed is always seen.
    """

    files: Callable[[Path], list[bytes]]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[Exception], ...] = (InputError,)
    packed: Callable[[bytes], bytes] = bytes
    examples: int = 100


# ---- how files are made and read ------------------------------------------------------------------


def _graphs(_: Path) -> list[bytes]:
    return [dumps(g) for g in (*(small_graph(seed) for seed in range(30)), random_graph(1), random_graph(2))]


def _read_tosa(data: bytes, _: Path) -> None:
    """What is accepted can be written, and what is written is read as the same."""
    graph = loads(data)
    written = dumps(loads(dumps(graph)))
    assert dumps(loads(written)) == written and loads(written).signature() == graph.signature()


@cache
def _run(place: Path) -> Path:
    options = Options(cost_model="op_count", time_limit=1, cache=place / "prices")
    runs.save(optimize_tosa(dumps(transposes()), Target.of("ethos-u85-256"), options=options), place / "run")
    return place / "run"


def _choice_graphs(place: Path) -> list[bytes]:
    return [gzip.decompress((_run(place) / CHOICE_GRAPH).read_bytes())]


def _as_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], None]:
    """Bytes are written to a file of this name, and that is read."""

    def read_bytes(data: bytes, place: Path) -> None:
        (place / name).write_bytes(data)
        read(place / name)

    return read_bytes


def _read_run(data: bytes, place: Path) -> None:
    """A choice graph that is damaged, in a run whose manifest knows it."""
    info, files = saved.read(_run(place))
    shutil.rmtree(place / "other", ignore_errors=True)
    saved.write(place / "other", info, {**files, CHOICE_GRAPH: data})
    runs.load(place / "other")


def _prices(place: Path) -> list[bytes]:
    cache = PriceCache(place / "whole.sqlite")
    cache.put(_PRICES)
    cache.close()
    return [(place / "whole.sqlite").read_bytes()]


def _read_prices(data: bytes, place: Path) -> None:
    for old in place.glob("store*"):
        old.unlink()
    (place / "store.sqlite").write_bytes(data)
    cache = PriceCache(place / "store.sqlite")
    found = cache.get(list(_PRICES))
    cache.put({"new": 1.0})
    cache.close()
    assert all(_PRICES[k] == v for k, v in found.items())


def _records(_: Path) -> list[bytes]:
    cells = [(f"m{i}", c) for i in range(3) for c in ("stock", "eqsat")]
    lines = [json.dumps({**FIELDS, "model": m, "configuration": c, "cycles": 7 + i}) for i, (m, c) in enumerate(cells)]
    return ["".join(f"{line}\n" for line in lines).encode()]


def _read_records(file: Path) -> None:
    RunFiles(file.parent).close()
    write(RecordedRun.read(file.parent), file.parent / "report")


def _outlines(_: Path) -> list[bytes]:
    made = [outline(small_graph(seed)) for seed in range(3)]
    return [json.dumps([[f"m{i}", "ethos-u85-256", "eqsat", [[o, {}]], [[]]] for i, o in enumerate(made)]).encode()]


def _raw(place: Path) -> list[bytes]:
    """Vela's own output, of every kind of command."""
    out = []
    for target in ("ethos-u55-128", "ethos-u85-256"):
        run_vela(dumps(of(*PIECES)), target, place)
        out.append((place / "graph_vela.npz").read_bytes())
    return out


def _payloads(_: Path) -> list[bytes]:
    from executorch.backends.arm.arm_vela import vela_compile

    flags = (list(Target.of(t).flags) for t in ("ethos-u55-128", "ethos-u85-256"))
    return [vela_compile(dumps(of(*PIECES)), f).processed_bytes for f in flags]


def _external_data(_: Path) -> list[bytes]:
    from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
    from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

    names = {"commands": DataEntry(0, 16, None), "weights": DataEntry(1, 16, None), "again": DataEntry(1, 16, None)}
    return [bytes(FlatTensorSerializer().serialize(DataPayload([bytes(range(200)), b"weights" * 90], names)))]


@cache
def _worker() -> Worker:
    return Worker()


def _read_binary(data: bytes, _: Path) -> None:
    """It is printed and run; a worker that dies or takes too long is no named error."""
    graph = of(*PIECES)
    try:
        disassemble_model(data, _worker())
        run_model(data, [np.zeros(graph.type(n).shape, np.int8) for n in graph.inputs], _worker(), _LIMITS)
    except InputError as e:
        cause = e.__cause__
        assert not (isinstance(cause, WorkerError) and (cause.refused or cause.stopped)), str(e)
        raise


def _certificates(place: Path) -> list[bytes]:
    graph = of(*PIECES[1:4])
    files, data = (place / "a.tosa", place / "b.tosa"), dumps(graph)
    for file in files:
        file.write_bytes(data)
    written = certificate(prove(graph, graph), files, (data, data), place / "c.json", {"eqsat": "0"})
    return [json.dumps(written, indent=1).encode()]


def _inputs(_: Path) -> list[bytes]:
    out = io.BytesIO()
    np.savez_compressed(out, x0=np.arange(300, dtype=np.int8).reshape(3, 100), x1=np.zeros((2, 5), np.int32))
    return [out.getvalue()]


def _answers(_: Path) -> list[bytes]:
    graph = dumps(of(PIECES[2]))
    answer = KnownAnswer("eqsat", "", 7, ("--optimise=Size",), graph, "[1,2]", 10)
    return [gzip.decompress(answer.pack())]


def _read_answer(data: bytes, place: Path) -> None:
    with closing(Store(place / "store.sqlite")) as store:
        store.put(ANSWERS, {"0a/0b": data})
    found = AnswerStore(place / "store.sqlite").entries("0a").values()
    assert all(isinstance(s, str) for a in found for s in (a.chosen, a.given, *a.settings))


def _weights(_: Path) -> list[bytes]:
    from ethosu import mlw_codec

    rng = np.random.default_rng(0)
    drawn = (np.round(rng.normal(0, width, 600)).clip(-255, 255).astype(int).tolist() for width in (0.3, 5, 40, 100))
    return [bytes(mlw_codec.encode(values)) for values in drawn]


def _read_weights(data: bytes, _: Path) -> None:
    assert len(decode(data)) <= 64 * 8 * max(1, len(data))


FORMATS = {
    "tosa": Format(_graphs, _read_tosa, (TosaError,), examples=1000),
    "choice graph": Format(_choice_graphs, _as_file("graph.json", load), (InvalidGraph,), examples=200),
    "run": Format(_choice_graphs, _read_run, (ArchiveError,), gzip.compress),
    "prices": Format(_prices, _read_prices),
    "records": Format(_records, _as_file("records.jsonl", _read_records), examples=25),
    "outlines": Format(
        _outlines, _as_file("outlines.json.xz", lambda file: read_outlines(file.parent)), packed=lzma.compress
    ),
    "raw output": Format(_raw, _read_binary, examples=40),
    "payload": Format(_payloads, _read_binary, examples=40),
    "external data": Format(_external_data, lambda data, _: read_external_data(data, "x.ptd"), examples=1000),
    "certificate": Format(_certificates, _as_file("c.json", lambda file: _paths(None, None, file))),
    "inputs": Format(_inputs, lambda data, _: unpack_arrays(data), (UnpackError,)),
    "answer": Format(_answers, _read_answer, packed=lambda data: gzip.compress(data, 1)),
    "weights": Format(_weights, _read_weights, (DeviceError,), examples=300),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_give_named_errors(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    files = form.files(tmp_path)

    @settings(max_examples=examples(form.examples), **_HOW)
    @given(damaged(files))
    def read(data: bytes) -> None:
        try:
            form.read(form.packed(data), tmp_path)
        except form.errors as e:
            assert not isinstance(e.__cause__, MemoryError) and len(str(e)) < 2500

    for data in files:
        form.read(form.packed(data), tmp_path)
    read()


@st.composite
def wrong_graphs(draw: st.DrawFn) -> TensorGraph:
    """A random graph with a wrong shape, dtype or operand."""
    g = small_graph(draw(st.integers(0, 200)))
    n = draw(st.integers(0, len(g.nodes) - 1))
    node = g.nodes[n]
    shape = st.lists(st.sampled_from((0, -1, 1, 2, 1 << 30, (1 << 31) - 1)), max_size=7).map(tuple)
    inputs = st.lists(st.integers(0, len(g.nodes) - 1), max_size=4).map(tuple)
    dtype = st.sampled_from(sorted(DTYPE_CODE))
    wrong = {"shape": draw(shape)}, {"dtype": draw(dtype)}, {"inputs": draw(inputs)}
    g.nodes[n] = replace(node, **draw(st.sampled_from(wrong)))
    return g


@settings(max_examples=examples(500), **_HOW)
@given(wrong_graphs())
def test_wrong_graphs_give_named_errors(g: TensorGraph) -> None:
    try:
        data = dumps(g)
    except Exception:  # noqa: BLE001 - not every wrong graph can be written
        return
    try:
        _read_tosa(data, Path())
    except TosaError as e:
        assert len(str(e)) < 2500


# ---- what damaged files have shown ----------------------------------------------------------------


@pytest.mark.parametrize("stride", [(0, 1), (1, 0), (-1, 1)])
def test_strides_below_one_are_refused(stride: tuple[int, int]) -> None:
    g = graph("x:INT8[1,5,4,3]", lambda x: x.layer(2))
    for n, node in enumerate(g.nodes):
        g.nodes[n] = replace(node, attrs=tuple((k, stride if k == "stride" else v) for k, v in node.attrs))
    with pytest.raises(TosaError, match="strides?.* (0|-1)"):
        loads(dumps(g))


def test_a_folded_constant_of_another_dtype_is_carried_not_cut() -> None:
    """A zero point of INT32 would be written back in INT8, as another number."""
    (x,) = inputs("x:INT8[1,4]")
    zero = x.const([1 << 20], "INT32")
    g = outputs(x.opaque("NEGATE", [x.g.type(x.n)], zero, zero))
    (n,) = [n for n in loads(dumps(g)).nodes if n.op not in ("input", "const")]
    assert n.op == "opaque" and n.attr("tosa") == "NEGATE"


def test_small_files_that_stand_for_endless_graphs_are_refused() -> None:
    """One long name for all results, operands and outputs: parts of a flatbuffer may be shared."""
    g = graph("x" * 60000 + ":INT8[1,2]", lambda x: x.concat(*[x] * 999))
    shared: dict[str, int] = {}

    class SharingBuilder(flatbuffers.Builder):
        def CreateString(self, s, *args):
            if s not in shared:
                shared[s] = super().CreateString(s, *args)
            return shared[s]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eqsat.tosa.flatbuffer.flatbuffers.Builder", SharingBuilder)
        small = dumps(g)
    assert len(small) < 70_000
    with pytest.raises(TosaError, match="shares its parts"):
        loads(small)


def test_many_inputs_and_equal_outputs_are_read_and_written() -> None:
    g = TensorGraph()
    for i in range(3000):
        g.add_input(f"i{i}", (1,), "INT8")
    finish(g, *[0] * 3000)
    g.output_names = ["i0"] * 3000
    again = loads(dumps(g))
    assert len(again.inputs) == 3000 and len(set(again.output_names)) == 3000
    assert loads(dumps(again)).signature() == g.signature()
