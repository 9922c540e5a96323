"""Binaries out of Vela's raw output, a delegate's payload and a .pte, to the same commands."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from executorch.backends.arm.arm_vela import vela_compile

from eqsat.device.binary import Binary, compile_binary, read_binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Convolution
from eqsat.device.text import disassemble
from eqsat.executorch.binaries import run_model
from eqsat.ground.files import InputError
from eqsat.ground.packed import unpack_arrays
from eqsat.ground.process import Limits
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tosa import dumps
from tests.command import run, run_vela
from tests.device.pieces import PIECES, of

TARGET = Target.of("ethos-u55-128")
GRAPH = dumps(of(*PIECES))


@pytest.fixture(scope="module")
def binary(worker: Worker) -> Binary:
    return compile_binary(GRAPH, TARGET, worker)


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("vela")
    run_vela(GRAPH, TARGET.accelerator, place)
    return place / "graph_vela.npz"


def test_raw_output_is_what_vela_gives_in_process(binary: Binary, npz: Path) -> None:
    read = read_binary(npz.read_bytes())
    assert read.commands() == binary.commands()
    assert (read.read_only, read.scratch, read.scratch_fast) == (binary.read_only, binary.scratch, binary.scratch_fast)
    assert (read.inputs, read.outputs) == (binary.inputs, binary.outputs)


def test_a_payload_has_all_but_the_size_of_fast_memory(binary: Binary) -> None:
    read = read_binary(vela_compile(GRAPH, list(TARGET.flags)).processed_bytes)
    assert read.commands() == binary.commands() and read.scratch_fast is None
    assert (read.read_only, read.inputs, read.outputs) == (binary.read_only, binary.inputs, binary.outputs)


def test_blocks_that_are_kept_elsewhere_are_read(binary: Binary) -> None:
    compiled = vela_compile(GRAPH, list(TARGET.flags), block_placements={"weight_data": "elsewhere"})
    with pytest.raises(DeviceError, match="keeps 'weight_data' elsewhere"):
        read_binary(compiled.processed_bytes)
    read = read_binary(compiled.processed_bytes, {b.key: b.payload for b in compiled.external_blocks})
    assert read.differences(binary) == [] and replace(read, read_only=b"").differences(binary) == ["constants"]


def test_operations_know_what_they_are_made_from(binary: Binary) -> None:
    convolutions = [c.offset for c in binary.commands() if isinstance(c, Convolution)]
    assert len(convolutions) >= 2 and all(c in binary.operators for c in convolutions)
    lines = list(disassemble(binary))
    assert sum(line.startswith("-- ") for line in lines) >= len(PIECES)


def test_every_instruction_is_printed(binary: Binary) -> None:
    lines = list(disassemble(binary, registers=True))
    assert sum(line.startswith("           0x") for line in lines) == len(binary.instructions())


def test_the_command_prints_a_file_and_names_what_is_wrong(npz: Path, tmp_path: Path) -> None:
    done = run("disassemble", npz)
    assert done.exit_code == 0 and "ethos-u55-128" in done.output and "depthwise" not in done.output
    assert all(word in done.output for word in ("convolution int8[15,15,8]", "reduce_sum", "table_0", "add int8"))
    for data, said in (b"something else", "neither"), (b"\x1c\0\0\0TFL3", "let Vela write --output-format=raw"):
        (tmp_path / "other").write_bytes(data)
        done = run("disassemble", tmp_path / "other")
        assert done.exit_code == 2 and said in done.output


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda d: d[:-40], "ends inside|no end"),
        (lambda d: d.replace(b"scratch_size", b"scratch_sizo"), "without scratch_size"),
        (lambda d: d.replace(b"COP1", b"COP2"), "no Ethos-U command stream"),
    ],
)
def test_a_spoiled_payload_is_named(spoil, said: str) -> None:
    payload = vela_compile(GRAPH, list(TARGET.flags)).processed_bytes
    with pytest.raises(DeviceError, match=said):
        read_binary(spoil(payload)).commands()


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("input_shape", np.array([[1, -2, 3, 4, 5, 6]] * 7), "a tensor of"),
        ("input_shape", np.array([[1 << 20] * 6] * 7), "no command can address"),
        ("output_region", np.full(6, 200), "region 200"),
        ("output_offset", np.full(6, -4), "at -4"),
        ("scratch_size", np.array(-1), "scratch memory of -1 bytes"),
        ("scratch_size", np.array(1 << 45), "scratch memory of 35184372088832 bytes"),
        ("scratch_size", np.array("abc"), "no raw output of Vela"),
        ("input_shape", np.ones((2, 6), int), "no raw output of Vela"),
        ("cmd_data", None, "no raw output of Vela: KeyError"),
    ],
)
def test_a_damaged_raw_output_is_named(npz: Path, name: str, value: np.ndarray | None, said: str) -> None:
    arrays = unpack_arrays(npz.read_bytes(), lambda n: not n.endswith("quantization"))
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value[: len(arrays[name])] if value.ndim and len(value) > 2 else value
    out = io.BytesIO()
    np.savez(out, **arrays)
    with pytest.raises(DeviceError, match=said):
        read_binary(out.getvalue())


def test_damaged_weights_are_one_line(npz: Path, tmp_path: Path) -> None:
    arrays = unpack_arrays(npz.read_bytes(), lambda n: not n.endswith("quantization"))
    size = arrays["weight_data"].nbytes
    arrays["weight_data"] = np.frombuffer((bytes(range(1, 60)) * size)[:size], np.uint8)
    np.savez(tmp_path / "damaged.npz", **arrays)
    inputs = {f"x{i}": np.zeros(t.shape, np.int8) for i, t in enumerate(read_binary(npz.read_bytes()).inputs)}
    np.savez(tmp_path / "x.npz", **inputs)
    asked = ["--inputs", str(tmp_path / "x.npz"), "-o", str(tmp_path / "y.npz")]
    assert run("run", npz, *asked).exit_code == 0
    done = run("run", tmp_path / "damaged.npz", *asked)
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert "damaged.npz" in done.stderr and "a stream of weights" in done.stderr


def test_a_run_has_limits(npz: Path) -> None:
    data = npz.read_bytes()
    inputs = [np.zeros(t.shape, np.int8) for t in read_binary(data).inputs]
    with Worker() as worker:
        # The first look at the memory must meet a process that has begun, and not one that is starting.
        assert len(run_model(data, inputs, worker).outputs) == len(read_binary(data).outputs)
        with pytest.raises(InputError, match="stopped at the memory limit"):
            run_model(data, inputs, worker, Limits(60, 1))
        with pytest.raises(InputError, match="stopped at the time limit"):
            run_model(data, inputs, worker, Limits(0.001))
        assert len(run_model(data, inputs, worker).outputs) == len(read_binary(data).outputs)
