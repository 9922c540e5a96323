"""Binaries that are proved equal to their graphs, and such as have an error planted, which are not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eqsat.device.binary import Binary
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.operands import ByteRange, Convolution, Element
from eqsat.device.run import run
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.proof import PROVED, UNDECIDED, Prover
from eqsat.proof.binary import EndedError, prove_binary
from eqsat.proof.binary_memory import ShadowMemory
from eqsat.proof.evaluation import variable
from eqsat.proof.field import Field
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps
from tests.device import pieces
from tests.device.pieces import Piece, compiled, of
from tests.device.planted import ERRORS, U55, U65, U85, Planted, flipped, with_word
from tests.proof.concrete import Opaque, binary_outputs_at

TARGETS = pytest.mark.parametrize("target", [U55, U65, U85], ids=lambda t: t.accelerator)
#: Graphs of one operator and dtype that are not proved: what their binaries compute has no form, or another one than
#: the graph's. The reason begins so.
OPEN = {
    ("weights_as_an_input", "INT8", 85): "its values are none of the graph's",
    ("weights_as_an_input", "INT16", 85): "8 bytes that nothing wrote as one element",
    ("placed_rows", "INT8", 85): "their values are none of the graph's",
    ("placed_rows", "INT16", 85): "their values are none of the graph's",
    ("selection", "INT8", 85): "there is no form for AND_NOT",
    ("selection", "INT16", 85): "there is no form for AND_NOT",
    ("whether_all_are_larger", "INT8", 85): "its values are none of the graph's",
    ("number_of_the_largest", "INT8", 55): "its values are none of the graph's",
}
#: Of these, terms have symbols, whose values are not known.
SYMBOLS = ("chosen_rows", "placed_rows", "number_of_the_largest", "shifts", "zeros_and_quotients")
KINDS = [(p.name, p.graph, d) for p in pieces.OF_U85 for d in p.dtypes]


@TARGETS
@pytest.mark.parametrize("piece", pieces.PIECES, ids=str)
def test_binaries_of_every_kind_of_command_are_proved(piece: Piece, target: Target, worker: Worker) -> None:
    graph = of(piece)
    proof = prove_binary(graph, compiled(dumps(graph), target, worker))
    assert (proof.verdict, proof.undecided) == (PROVED, ()) and proof.error_bound < 2**-60


def test_a_proof_that_takes_longer_than_it_may_is_undecided(worker: Worker) -> None:
    graph = of(pieces.PIECES[0])
    binary, prover, reason = compiled(dumps(graph), U55, worker), Prover(graph), "the time for a proof ended there"
    assert prove_binary(graph, binary, prover=prover, until=time.thread_time() + 600).verdict == PROVED
    for known, place in ((prover, binary.commands()[0].offset), (None, -1)):
        proof = prove_binary(graph, binary, prover=known, until=0)
        assert proof.verdict == UNDECIDED and [(o.node, o.reason) for o in proof.undecided] == [(place, reason)]


def test_the_limit_is_that_of_the_proof_of_the_binary(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover's own limit, of an earlier proof, ends none, and what a proof leaves undone the next one does."""
    monkeypatch.setattr("eqsat.proof.binary.LARGEST_ERROR", -150.0)  # one evaluation does not suffice
    graph = of(pieces.PIECES[0])
    binary, prover = compiled(dumps(graph), U55, worker), Prover(graph, seconds=0.2)
    ended = prove_binary(graph, binary, prover=prover, until=0)
    assert ended.verdict == UNDECIDED and ended.undecided[0].reason == "the time for a proof ended there"
    assert prover.prove(graph).verdict == PROVED
    spent = time.thread_time()
    while time.thread_time() < spent + 0.3:
        pass
    proof = prove_binary(graph, binary, prover=prover, until=time.thread_time() + 600)
    assert proof.verdict == PROVED and len(proof.seeds) == 2


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
@pytest.mark.parametrize("name, make, dtype", KINDS, ids=[f"{name}-{dtype}" for name, _, dtype in KINDS])
def test_binaries_of_single_operators_are_proved_by_terms_that_are_what_they_compute(
    name: str, make: Callable[[str], TensorGraph], dtype: str, target: Target, worker: Worker
) -> None:
    """At random inputs; what Vela refuses for a family, other tests say."""
    graph = make(dtype)
    try:
        binary = compiled(dumps(graph), target, worker)
    except WorkerError as e:
        assert e.refused and target == U55
        return
    proof = prove_binary(graph, binary)
    reason = OPEN.get((name, dtype, 55 if target == U55 else 85))
    if reason is None:
        assert (proof.verdict, proof.undecided) == (PROVED, ())
    else:
        assert proof.verdict == UNDECIDED and proof.undecided[0].reason.startswith(reason)
    inputs = samples(domains(graph), 1)[0]
    try:
        found = binary_outputs_at(graph, binary, inputs)
    except (Opaque, EndedError):
        assert name in SYMBOLS or reason is not None
        return
    for y, want in zip(found, run(binary, inputs), strict=True):
        assert np.array_equal(y.reshape(-1), want.reshape(-1))


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_planted_error_is_not_proved(error: Planted, worker: Worker) -> None:
    graph, binary, wrong = error.binaries(worker)
    assert prove_binary(graph, binary).verdict == PROVED
    proof = prove_binary(graph, wrong)
    assert proof.verdict == UNDECIDED and proof.undecided and proof.error_bound == 1.0


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_one_entry_of_a_table_is_enough(target: Target, worker: Worker) -> None:
    graph = of(pieces.table)
    binary = compiled(dumps(graph), target, worker)
    entries = dict(graph.nodes[graph.outputs[0]].attrs)["table"]
    at = binary.read_only.index(np.array(entries, np.int8).tobytes())
    for k in (0, 100, 255):
        assert prove_binary(graph, flipped(binary, at + k)).verdict == UNDECIDED


def shifted(dtype: str, count: int) -> Piece:
    make = lambda x: x.lsl(x.const([[[[count]]]]))  # noqa: E731
    return Piece(f"shifted_{dtype}_{count}", (dtype,), "x:D[1,4,4,16]", make)


NARROWED = Piece("narrowed", ("INT16",), "wide:D[1,4,4,16]", lambda x: x.cast("INT8"))


@pytest.mark.parametrize(
    "piece", [NARROWED, *(shifted(dtype, k) for dtype, bits in (("INT8", 8), ("INT16", 16)) for k in (1, 4, bits - 1))]
)
def test_what_a_result_has_no_room_for_is_not_proved(piece: Piece, worker: Worker) -> None:
    """TOSA keeps the lower bits; of what Vela 5.2 writes for Ethos-U85 the functional model has no result."""
    graph = of(piece)
    binary = compiled(dumps(graph), U85, worker)
    largest = np.full((1, 4, 4, 16), 127, graph.type(graph.inputs[0]).dtype.lower())
    with pytest.raises(DeviceError, match="has no room for"):
        run(binary, [largest * 258 if largest.itemsize == 2 else largest])
    assert prove_binary(graph, binary).verdict == UNDECIDED


def moved(binary: Binary) -> Binary:
    """The output one element further down."""
    (output,) = binary.outputs
    return replace(binary, scratch=binary.scratch + 16, outputs=(replace(output, address=output.address + 1),))


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_another_address_is_not_proved(target: Target, worker: Worker) -> None:
    graph = of(pieces.convolution)
    assert prove_binary(graph, moved(compiled(dumps(graph), target, worker))).verdict == UNDECIDED


def test_the_command_at_which_it_ends_is_named(worker: Worker) -> None:
    graph = of(pieces.convolution)
    binary = with_word(compiled(dumps(graph), U55, worker), "SET_OFM_ZERO_POINT", lambda v: v + 1)
    found = prove_binary(graph, binary).undecided[0]
    first = next(c for c in binary.commands() if isinstance(c, Convolution))
    assert found.operator.startswith("convolution ") and found.node == first.offset


WORD, SHORT, BYTE, UNSIGNED = Element(True, 32), Element(True, 16), Element(True, 8), Element(False, 8)


@pytest.fixture
def terms() -> Terms:
    return Terms(Field(1))


@pytest.fixture
def memory(terms: Terms) -> ShadowMemory:
    return ShadowMemory(terms, {1: 64}, 0)


def at(*places: int) -> np.ndarray:
    return np.array(places)


def same(terms: Terms, x: Value, y: Value) -> list[bool]:
    return [bool(k) for k in (terms.lanes(x) == terms.lanes(y)).all(0)]


def words(terms: Terms, dtype: str = "INT32", number: int = 0) -> Value:
    return variable(terms, number, Type((2,), dtype))


def test_what_is_written_is_read(terms: Terms, memory: ShadowMemory) -> None:
    memory.write_at(1, at(4, 8), WORD, words(terms))
    assert same(terms, memory.read_at(1, at(8, 4), WORD), words(terms).take(at(1, 0))) == [True, True]


@pytest.mark.parametrize("element, places", [(SHORT, (4, 8)), (WORD, (5, 9)), (WORD, (2, 6)), (BYTE, (4, 8))])
def test_other_bytes_of_it_are_a_value_of_their_own(
    element: Element, places: tuple[int, int], terms: Terms, memory: ShadowMemory
) -> None:
    memory.write_at(1, at(4, 8), WORD, words(terms))
    found = memory.read_at(1, at(*places), element)
    assert same(terms, found, words(terms)) == [False, False]
    assert same(terms, found, memory.read_at(1, at(*places), element)) == [False, False]


@pytest.mark.parametrize("place", [4, 5, 7])
def test_what_is_written_over_in_part_is_lost(place: int, terms: Terms, memory: ShadowMemory) -> None:
    memory.write_at(1, at(4, 8), WORD, words(terms))
    memory.write_at(1, at(place, 20), BYTE, words(terms, "INT8", 1))
    assert same(terms, memory.read_at(1, at(4, 8), WORD), words(terms)) == [False, True]


def test_bytes_may_be_moved_one_by_one(terms: Terms, memory: ShadowMemory) -> None:
    """In whatever order; but an element is one only with its bytes in their order."""
    memory.write_at(1, at(0, 4), WORD, words(terms))
    for k in (2, 0, 3, 1):
        memory.copy_pieces(1, [k, 4 + k], 1, [20 + k, 24 + k], 1)
    assert same(terms, memory.read_at(1, at(20, 24), WORD), words(terms)) == [True, True]
    memory.copy_pieces(1, [0, 1], 1, [21, 20], 1)
    assert same(terms, memory.read_at(1, at(20, 24), WORD), words(terms)) == [False, True]
    memory.copy_pieces(1, [0], 1, [24], 2)  # the lower half of another element
    assert same(terms, memory.read_at(1, at(20, 24), WORD), words(terms)) == [False, False]


def test_a_copy_reads_all_before_it_writes(terms: Terms, memory: ShadowMemory) -> None:
    memory.write_at(1, at(0, 1), BYTE, words(terms, "INT8"))
    memory.copy_pieces(1, [0, 1], 1, [1, 2], 1)
    assert same(terms, memory.read_at(1, at(1, 2), BYTE), words(terms, "INT8")) == [True, True]


def test_constants_are_read_as_any_element_and_terms_are_no_constants(terms: Terms, memory: ShadowMemory) -> None:
    memory.fill(1, bytes([1, 0, 0xFF, 0xFF]))
    assert terms.concrete(memory.read_at(1, at(0, 2), SHORT)).tolist() == [1, -1]
    assert terms.concrete(memory.read_at(1, at(0, 2), UNSIGNED)).tolist() == [1, 255]
    assert memory.constant(ByteRange(1, 0, 4)) == bytes([1, 0, 0xFF, 0xFF])
    memory.write_at(1, at(3, 20), BYTE, words(terms, "INT8"))
    with pytest.raises(Undecidable, match="no constants"):
        memory.constant(ByteRange(1, 0, 4))
    with pytest.raises(Undecidable, match="no constants"):
        memory.constant(ByteRange(1, 40, 4))


def test_signs_are_functions(terms: Terms, memory: ShadowMemory) -> None:
    x = words(terms, "INT8")
    memory.write_at(1, at(0, 1), BYTE, x)
    unsigned = memory.read_at(1, at(0, 1), UNSIGNED)
    assert [int(limit[0]) for limit in terms.limits(unsigned)] == [0, 255]
    memory.write_at(1, at(8, 9), UNSIGNED, unsigned)
    assert same(terms, memory.read_at(1, at(8, 9), BYTE), x) == [True, True]


def test_results_that_overlap_are_refused(terms: Terms, memory: ShadowMemory) -> None:
    with pytest.raises(Undecidable, match="overlap"):
        memory.write_at(1, at(4, 6), WORD, words(terms))


@pytest.mark.parametrize("place", [-1, 61, 64])
def test_nothing_lies_beyond_a_region(place: int, terms: Terms, memory: ShadowMemory) -> None:
    with pytest.raises(DeviceFault):
        memory.read_at(1, at(0, place), WORD)
    with pytest.raises(DeviceFault):
        memory.write_at(1, at(0, place), WORD, words(terms))
    with pytest.raises(DeviceFault):
        memory.copy_pieces(1, [0], 1, [place], 4)
