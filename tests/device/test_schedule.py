"""Rules of the hardware that results do not show: waits, overlapping blocks, room for blocks, channels, sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eqsat.device.core.block_order import Blocks, Reading, most_dependency
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.operands import Chained, Dma, DmaSide, Element, FeatureMap, Kernel, Wait
from eqsat.device.core.registers import ActivationFormat
from eqsat.device.run import Device, check_commands
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.types import DType, Shape
from eqsat.tosa import dumps
from tests.device.pieces import OF_U85, PIECES, Piece, addition, compiled, conv3, convolution, of, table
from tests.device.planted import graph_of, with_payload, with_word
from tests.graphs import ON_THE_NEWEST_VELA
from tests.term import Term, graph

TARGETS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


@pytest.mark.parametrize("target", TARGETS)
def test_a_wait_that_is_gone_is_a_fault(target: str, worker: Worker) -> None:
    """Nearly all that Vela writes; it also waits where ranges of bytes that interleave seem to touch."""
    binary = compiled(dumps(of(*PIECES)), Target.of(target), worker)
    commands = binary.commands()
    check_commands(commands, binary.config)
    waits = [k for k, c in enumerate(commands) if isinstance(c, Wait)]
    caught = 0
    for k in waits:
        try:
            check_commands([*commands[:k], *commands[k + 1 :]], binary.config)
        except DeviceFault as e:
            assert "does not wait for" in str(e)
            caught += 1
    assert caught >= 0.9 * len(waits) > 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [4096, 20_000])
def test_cascades_break_no_rule(target: str, size: int, worker: Worker) -> None:
    """Bands of rows go through several convolutions at once, in buffers that begin anew at their end."""
    asked = Target.of(target)
    asked = replace(asked, flags=(*asked.flags, f"--arena-cache-size={size}"))
    g = graph("x:INT8[1,40,40,16]", lambda x: x.layer(16, 3).layer(24, 3).layer(8, 3))
    binary = compiled(dumps(g), asked, worker)
    check_commands(binary.commands(), binary.config)
    tiles = [c for c in binary.commands() if hasattr(c, "ifm") and c.ifm.height0 < c.ifm.height]
    assert tiles or size > 4096


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_that_overlap_too_early_are_a_fault(target: str, worker: Worker) -> None:
    binary = compiled(dumps(of(convolution)), Target.of(target), worker)
    most = 7 if "u85" in target else 3
    with pytest.raises(DeviceFault, match=f"may begin {most} blocks before") as e:
        Device(with_word(binary, "SET_BLOCKDEP", lambda _: most, nth=-1))
    assert e.value.offset in binary.operators and f"at byte {e.value.offset:#x}" in str(e.value)


@ON_THE_NEWEST_VELA  # others put another kernel before the chain
def test_a_chain_waits_and_is_waited_for_as_one_kernel(worker: Worker) -> None:
    """Its last kernel reads what the kernel before the chain writes; its first one is not done before its last."""

    def chain(x: Term, y: Term) -> Term:
        wide = x.layer(32, 3).rescale("INT32", 1 << 30, 30)
        return (y.rescale("INT32", 1 << 30, 30) + 7).max(wide).rescale("INT8", 1 << 30, 31)

    g = graph("x:INT8[1,12,16,32] y:INT8[1,12,16,32]", chain)
    binary = compiled(dumps(g), Target.of("ethos-u85-256"), worker)
    *_, first, number, last, stop = commands = binary.commands()
    assert [type(c.output.map) for c in (first, number)] == [Chained, Chained] and stop == commands[-1]
    check_commands(commands, binary.config)
    with pytest.raises(DeviceFault, match=f"at byte {last.offset:#x} may begin 7 blocks before .* 1 blocks before"):
        Device(with_word(binary, "SET_BLOCKDEP", lambda _: 7, nth=-1))
    sides = (DmaSide(r, at, (0, 0)) for r, at in ((0, 0), (first.ifm.region, first.ifm.bases[0])))
    copy = Dma(stop.offset, 16, (1, 1), *sides)
    with pytest.raises(DeviceFault, match="does not wait for"):
        check_commands([*commands[:-1], copy], binary.config)
    check_commands([*commands[:-1], Wait(0, True, 0), copy], binary.config)


def test_blocks_follow_each_other_depth_first() -> None:
    """Two blocks of 16 channels after each other, in each of two halves of the width."""
    m = FeatureMap(1, (0, 0, 0, 0), 4, 4, 8, 256, 32, 1, ActivationFormat.NHWC, Element(True, 8), 0, 4, 8, 32)
    one = Kernel(1, 1, (1, 1), (1, 1), 0, 0, 0, 0)
    before = Blocks((4, 8, 32), (4, 4, 16), 0, m, ())
    right, left, first_half = (
        Blocks((4, 4, 32), (4, 4, 32), 0, None, (reading,))
        for reading in (
            Reading(replace(m, bases=(128, 0, 0, 0), width=4), one, channels=32),
            Reading(replace(m, width=4), one, channels=32),
            Reading(replace(m, bases=(128, 0, 0, 0), width=4), one, channels=16),
        )
    )
    elsewhere = replace(right, readings=(Reading(replace(m, bases=(4096, 0, 0, 0))),))
    found = [most_dependency(before, after, 7) for after in (right, left, first_half, elsewhere)]
    assert found == [0, 2, 1, 7]
    assert most_dependency(replace(before, written=None), left, 7) == 7, "not judged"
    for second, allowed in ((0, 2), (16384, 7)):
        tiled = replace(m, bases=(8192, 0, second, 0), height0=2)
        after = replace(right, readings=(Reading(tiled, one, channels=32),))
        assert most_dependency(before, after, 7) == allowed, "its last two rows are elsewhere than the first"


def test_parts_of_a_tensor_that_take_turns_are_told_apart() -> None:
    """Every fourth column is written, and one between two of them read; a pooling writes one column with a stride of
    its own, and the next one reads it with another."""
    m = FeatureMap(1, (0, 0, 0, 0), 1, 1, 8, 4096, 128, 1, ActivationFormat.NHWC, Element(True, 8), 0, 1, 8, 32)
    before = Blocks((1, 8, 32), (1, 8, 32), 0, m, ())
    dense = replace(m, stride_x=32, width=32, width0=32)
    for base, allowed in ((32, 7), (0, 0)):
        between = replace(m, bases=(base, 0, 0, 0))
        assert most_dependency(before, Blocks((1, 8, 32), (1, 8, 32), 0, None, (Reading(between),)), 7) == allowed
    late = Blocks((1, 32, 32), (1, 8, 32), 0, None, (Reading(dense),))
    assert most_dependency(before, late, 7) == 0, "its first columns have one that was written"
    column = replace(m, width=1, height=8, height0=8, height1=8, stride_y=32)
    rows = Blocks((8, 1, 32), (4, 1, 32), 0, replace(column, stride_x=999), ())
    assert most_dependency(rows, Blocks((8, 1, 32), (4, 1, 32), 0, None, (Reading(column),)), 7) == 1


def test_what_later_blocks_read_is_not_overwritten() -> None:
    """A window may not be written over; an element may where it was, or where no later block reads."""
    bases = (0, 0, 0, 0)
    element = Element(True, 8)
    m = FeatureMap(1, bases, 8, 8, 4, 32, 8, 1, ActivationFormat.NHWC, element, 0, 8, 4, 8)
    shape, block = (8, 4, 8), (2, 4, 8)

    def overwrites(*readings: Reading, base: int = 0, block: tuple[int, int, int] = block, chain: bool = False) -> bool:
        written = Blocks(shape, block, 0, replace(m, bases=(base, 0, 0, 0)), () if chain else readings)
        return written.overwrite_operands(readings if chain else ())

    window = Reading(m, Kernel(3, 1, (1, 1), (1, 1), 1, 0, 1, 0))
    assert not overwrites(Reading(m))
    assert not overwrites(Reading(m), base=256)
    assert not overwrites(Reading(replace(m, bases=(64, 0, 0, 0)))), (
        "each block is written to where the one before was read"
    )
    assert overwrites(Reading(m), base=64), "the next block reads it"
    assert overwrites(Reading(m), base=64, chain=True)
    assert overwrites(window) and not overwrites(window, block=shape)
    assert overwrites(Reading(m, whole=True))
    assert overwrites(Reading(m, Kernel(1, 1, (1, 1), (1, 1), 0, 0, 0, 0), channels=8), block=(8, 4, 4))
    assert not overwrites(Reading(replace(m, region=2)), base=64)
    assert overwrites(Reading(replace(m, height=1))), "a broadcast row is read by all blocks"
    assert not overwrites(Reading(replace(m, zero_point=3)))


@pytest.mark.parametrize("target", TARGETS)
def test_operands_and_constants_are_not_overwritten(target: str, worker: Worker) -> None:
    binary = compiled(dumps(of(convolution)), Target.of(target), worker)
    c = next(c for c in binary.commands() if type(c).__name__ == "Convolution")
    for place, said in (
        (replace(c.output.map, region=0), "writes to the constants"),
        (replace(c.output.map, region=c.ifm.region, bases=c.ifm.bases), "bytes that a later block reads"),
    ):
        with pytest.raises(DeviceFault, match=said):
            check_commands([replace(c, output=replace(c.output, map=place))], binary.config)


def test_weights_are_not_overwritten(worker: Worker) -> None:
    """By the convolution itself, which reads them for each block, from SRAM."""
    binary = compiled(dumps(of(convolution)), Target.of("ethos-u65-512"), worker)
    *_, c, stop = commands = binary.commands()
    check_commands(commands, binary.config)
    for place in (c.weights[1], c.scales[0]):
        over = replace(c.output.map, region=place.region, bases=(place.address, 0, 0, 0))
        with pytest.raises(DeviceFault, match="writes over weights or scales that it reads"):
            check_commands([*commands[:-2], replace(c, output=replace(c.output, map=over)), stop], binary.config)


@pytest.mark.parametrize("turn", [lambda x: x.transpose(0, 2, 1, 3), lambda x: x.reverse(1)], ids=["WHC", "reversed"])
def test_results_that_are_turned_have_no_known_order(turn: Callable[[Term], Term], worker: Worker) -> None:
    """Vela lets no kernel begin before they are written."""
    g = graph("x:INT8[1,12,16,32]", lambda x: turn(x.layer(32, 1)).layer(32, 1))
    binary = compiled(dumps(g), Target.of("ethos-u85-256"), worker)
    first, second, stop = binary.commands()
    for depends, place, said in (
        (7, first.output.map.bases, "may begin 7 blocks before"),
        (0, first.ifm.bases, "bytes that a later block reads"),
    ):
        output = replace(first.output, map=replace(first.output.map, bases=place))
        later = replace(second, block=replace(second.block, dependency=depends))
        with pytest.raises(DeviceFault, match=said):
            check_commands([replace(first, output=output), later, stop], binary.config)


@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_does_not_overwrite_what_it_reads(target: str, worker: Worker) -> None:
    binary = compiled(dumps(of(table)), Target.of(target), worker)
    c = next(c for c in binary.commands() if isinstance(c, Dma))
    source = replace(c.source, region=1)
    for by, wrong in ((0, False), (c.length - 1, True), (c.length, False)):
        copy = replace(c, source=source, destination=replace(source, address=source.address + by))
        if not wrong:
            check_commands([copy], binary.config)
            continue
        with pytest.raises(DeviceFault, match="copies to bytes that it reads"):
            check_commands([copy], binary.config)


def test_a_table_is_lost_to_buffers_where_no_banks_are_reserved(worker: Worker) -> None:
    """The accumulators of the second convolution take the banks of tables on U55-64: Vela copies the table again."""
    rng = np.random.default_rng(0)
    entries = [int(k) for k in rng.integers(-128, 128, 256)]
    g = graph("x:INT8[1,24,24,16]", lambda x: conv3(conv3(conv3(x).table(entries))).table(entries))
    for target, copies_again in (("ethos-u55-64", True), ("ethos-u55-128", False)):
        binary = compiled(dumps(g), Target.of(target), worker)
        commands = binary.commands()
        check_commands(commands, binary.config)
        copies = [k for k, c in enumerate(commands) if isinstance(c, Dma) and c.destination.region is None]
        assert len(copies) == 1 + copies_again
        if copies_again:
            with pytest.raises(DeviceFault, match="looks up a table that the buffers of Convolution at byte"):
                check_commands([c for k, c in enumerate(commands) if k != copies[1]], binary.config)
            after = next(k for k, c in enumerate(commands[: copies[1]]) if hasattr(c, "output") and k > copies[0] + 2)
            late = replace(commands[after], block=replace(commands[after].block, dependency=1))
            with pytest.raises(DeviceFault, match="may begin 1 blocks before"):
                check_commands([*commands[:after], late, *commands[after + 1 :]], binary.config)


LARGEST = next(p for p in OF_U85 if p.name == "largest_padded")
CHANGED: dict[str, tuple[Piece, str, Callable[[int], int], str]] = {
    "no whole micro blocks": (convolution, "SET_OFM_BLK_DEPTH_M1", lambda v: v - 1, "no whole micro blocks"),
    "too large": (convolution, "SET_OFM_BLK_WIDTH_M1", lambda v: 63, "blocks of"),
    "channels": (addition, "SET_IFM_DEPTH_M1", lambda v: v - 1, "channels for"),
    "channels of a pooling": (table, "SET_IFM_DEPTH_M1", lambda v: v - 2, "channels for"),
}
IN_BANKS: dict[str, tuple[Piece, str, Callable[[int], int], str]] = {
    "inputs": (convolution, "SET_IFM_IB_END", lambda v: v - 2, "of its inputs"),
    "inputs beyond accumulators": (convolution, "SET_AB_START", lambda v: 2, "accumulators"),
    "accumulators": (convolution, "SET_AB_START", lambda v: v + 12, "accumulators"),
    "the second input": (addition, "SET_IFM2_IB_START", lambda v: 2, "of its inputs"),
}


@pytest.mark.parametrize(
    "target, change",
    [(t, c) for t in TARGETS for c in CHANGED.values()] + [(t, c) for t in TARGETS[:2] for c in IN_BANKS.values()],
)
def test_what_has_no_room_is_a_fault(
    target: str, change: tuple[Piece, str, Callable[[int], int], str], worker: Worker
) -> None:
    piece, register, value, reason = change
    binary = compiled(dumps(of(piece)), Target.of(target), worker)
    Device(binary)
    with pytest.raises(DeviceFault, match=reason):
        Device(with_word(binary, register, value))


@pytest.mark.parametrize(
    "name, dimension, blocks, nth, reason",
    [
        ("matrices", "WIDTH", 8, 0, r"blocks of \(2, 32, 8\), which are no whole micro blocks of \(1, 1, 16\)"),
        ("weights_as_an_input", "WIDTH", 4, -1, "kept of more than one of the blocks"),
    ],
)
def test_blocks_of_u85_are_whole_in_bricks_and_one_if_kept(
    name: str, dimension: str, blocks: int, nth: int, reason: str, worker: Worker
) -> None:
    binary = compiled(dumps(graph_of(name)), Target.of("ethos-u85-256"), worker)
    Device(binary)
    with pytest.raises(DeviceFault, match=reason):
        Device(with_word(binary, f"SET_OFM_BLK_{dimension}_M1", lambda _: blocks - 1, nth))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "piece, dtype, register, step",
    [
        (convolution, "INT8", "OFM_BASE0", 16),
        (convolution, "INT8", "OFM_STRIDE_Y", 16),
        (convolution, "INT8", "WEIGHT_BASE", 16),
        (convolution, "INT8", "WEIGHT_LENGTH", 16),
        (convolution, "INT8", "SCALE_LENGTH", 16),
        (LARGEST, "INT16", "IFM_BASE0", 2),
        (LARGEST, "INT16", "IFM_STRIDE_X", 2),
    ],
)
def test_what_is_not_aligned_is_a_fault(
    target: str, piece: Piece, dtype: str, register: str, step: int, worker: Worker
) -> None:
    """Bricks, weights and elements of several bytes."""
    binary = compiled(dumps(piece.graph(dtype)), Target.of(target), worker)
    Device(binary)
    with pytest.raises(DeviceFault, match=rf"reads {register} 0x\w+, which is no multiple of {step}"):
        Device(with_payload(binary, f"SET_{register}", lambda v: v + step // 2))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "dtype, shape", [("INT16", (1, 16, 10, 16)), ("INT8", (1, 16, 50, 32)), ("INT32", (1, 8, 8, 16))]
)
def test_one_element_needs_no_block_as_large_as_the_output(
    target: str, dtype: DType, shape: Shape, worker: Worker
) -> None:
    """Vela gives such a second input the room that is left."""
    g = graph(f"x:{dtype}{[*shape]} y:{dtype}[1,1,1,1]", lambda x, y: x * y)
    binary = compiled(dumps(g), Target.of(target), worker)
    check_commands(binary.commands(), binary.config)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_beyond_their_accumulators_are_a_fault(target: str, worker: Worker) -> None:
    g = graph("x:INT32[1,4,4,8]", lambda x: x.reduce("sum", 3))
    binary = compiled(dumps(g), Target.of(target), worker)
    found = Device(binary).run([np.full((1, 1, 4, 4, 8), 1 << 20, np.int32)])
    assert np.all(found[0] == 1 << 23)
    with pytest.raises(DeviceError, match="accumulators of|no room"):
        Device(binary).run([np.full((1, 1, 4, 4, 8), 1 << 30, np.int32)])
