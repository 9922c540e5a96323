"""Binaries that are proved equal to their graphs, and such as have an error planted, which are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eqsat.device.binary import Binary
from eqsat.device.core.commands import Convolution
from eqsat.device.core.errors import DeviceError
from eqsat.device.run import run
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.proof import PROVED, UNDECIDED
from eqsat.proof.binary import EndedError, SlowProof, prove_binary
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
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


def test_a_proof_that_would_take_far_longer_than_it_may_ends_early(worker: Worker) -> None:
    graph = of(pieces.PIECES[0])
    binary = compiled(dumps(graph), U55, worker)
    with pytest.raises(SlowProof, match="of processor time, of 0 s"):
        prove_binary(graph, binary, seconds=1e-9)
    assert prove_binary(graph, binary, seconds=600).verdict == PROVED


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
@pytest.mark.parametrize("name, make, dtype", KINDS, ids=[f"{name}-{dtype}" for name, _, dtype in KINDS])
def test_binaries_of_single_operators_are_proved_by_terms_that_are_what_they_compute(
    name: str, make: Callable[[str], TensorGraph], dtype: str, target: Target, worker: Worker
) -> None:
    """Terms at random inputs, roots being the integers that they stand for; what Vela refuses for a family, other
    tests say."""
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
