"""Every instruction as Vela itself prints it, and errors that have names."""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from eqsat.device.binary import COMMAND_SETS, binary_of, read_binary, read_header
from eqsat.device.core.decoding import Registers
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Pooling
from eqsat.device.core.registers import Instruction, instructions
from eqsat.device.ethos_u55.registers import LAYOUTS
from eqsat.ground.worker import Pool
from eqsat.target import FAMILIES, Target
from eqsat.tosa import dumps
from tests.command import run_vela
from tests.device.pieces import PIECES, of
from tests.graphs import compile_graph
from tests.term import graph

TARGETS = ("ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-128", "ethos-u85-1024")
_LINE = re.compile(r"0x([0-9a-f]{6}): (?:([0-9a-f]{8}) | {9})([0-9a-f]{4}) ([0-9a-f]{4}) - NPU_(\w+) +(\d+)(?:, (.*))?")


@pytest.mark.parametrize("target", TARGETS)
def test_all_fields_are_those_that_vela_prints(target: str, tmp_path: Path) -> None:
    shown = run_vela(dumps(of(*PIECES)), target, tmp_path, "--verbose-register-command-stream")
    printed = [m.groups() for m in map(_LINE.match, shown.splitlines()) if m]
    binary = read_binary((tmp_path / "graph_vela.npz").read_bytes())
    assert binary.config.accelerator == target
    assert len(printed) > 300
    assert [_as_vela_prints(i) for i in binary.instructions()] == [
        (int(offset, 16), payload, parameter, code, name, _fields(fields or ""))
        for offset, payload, parameter, code, name, _, fields in printed
    ]


def _as_vela_prints(i: Instruction) -> tuple[object, ...]:
    payload = None if i.payload is None else f"{i.payload:08x}"
    return i.offset, payload, f"{i.parameter:04x}", f"{i.layout.code:04x}", i.name, i.describe()


def _fields(text: str) -> dict[str, str]:
    """Enumerations without the name of their type, which Vela prints before the value."""
    out = dict(part.split(" = ") for part in text.split(", ") if part)
    return {k: _PREFIX.sub("", v) for k, v in out.items()}


_PREFIX = re.compile(
    "^(?:ACTIVATION_(?:TYPE|PRECISION|FORMAT|FUNCTION|CLIP_RANGE|STORAGE|REVERSE|TRANSPOSE)|(?:IFM|OFM)_SCALE_MODE|ROUND_MODE(?:_[IO]FM)?|"
    "IFM_UPSCALE_MODE|POOLING_MODE|ELEMENTWISE_MODE|RESIZE_MODE|WEIGHT_(?:ORDER|FORMAT|SPARSITY)|KERNEL_(?:DILATION|DECOMPOSITION)|"
    "PARALLEL_MODE|ACC_(?:FORMAT|INPUT|OUTPUT)|MICROBLOCK|DMA_(?:REGION|STRIDE|IDX)_MODE|BROADCAST_MODE|IFM2_OPERAND_ORDER)_"
)


@pytest.mark.parametrize(
    "data, said",
    [
        (b"TFL3" + bytes(28), "begins with b'TFL3'"),
        (b"COP1" + bytes(3), "no whole words"),
        (b"COP1" + struct.pack("<4I", 0x0010_0001, 0x0000_1807, 0, 9), "unknown driver action"),
        (
            b"COP1" + struct.pack("<4I", 0x0010_0001, 0x0000_1807, 0x1001_6000, 0x0004_0002),
            "4 words, of which there are 0",
        ),
        (b"COP1" + struct.pack("<4I", 0x0010_0001, 0x7000_1807, 0x1001_6000, 0x0000_0002), "unknown product 7"),
        (b"COP1" + struct.pack("<4I", 0x0010_0001, 0x0000_1809, 0x1001_6000, 0x0000_0002), "there is no ethos-u55-512"),
        (b"COP1", "no command stream"),
    ],
)
def test_a_header_that_is_none_is_named(data: bytes, said: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(said)):
        read_header(data)


def test_commands_that_differ_in_places_alone_are_as_if_decoded_anew(
    monkeypatch: pytest.MonkeyPatch, pool: Pool
) -> None:
    """On Ethos-U55 a TRANSPOSE is many poolings, between which only addresses are set."""
    g = graph("x:INT8[6,5,7,4]", lambda x: x.transpose(1, 0, 3, 2).relu())
    binary = binary_of(compile_graph(g, Target.of("ethos-u55-128"), pool).raw)
    found = binary.commands()
    shared = [a.kernel is b.kernel for a, b in pairwise(c for c in found if isinstance(c, Pooling))]
    assert sum(shared) > 20
    monkeypatch.setattr(Registers, "same", lambda *_: None)
    assert found == binary.commands()


def test_every_family_has_its_commands() -> None:
    assert set(COMMAND_SETS) == {f.commands for f in FAMILIES}


@pytest.mark.parametrize(
    "words, said",
    [
        ([0x0000_0104, 0x0000_03FF], "unknown command 0x000003ff at byte 4"),
        ([0x0000_8104], "unknown command"),
        ([0x0000_4010], "ends inside SET_OFM_BASE0"),
        ([0x0003_0107], "SET_IFM_UPSCALE at byte 0: unknown mode 3"),
        ([0x0012_0107], "SET_IFM_UPSCALE at byte 0: unknown bits 0x10"),
        ([0x0100_4000, 0], "SET_IFM_BASE0 at byte 0: unknown bits 0x100"),
        ([0x0005_0125], "unknown activation_function 5"),
    ],
)
def test_what_there_is_not_is_named(words: list[int], said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        list(instructions(words, LAYOUTS))
