"""Delegates out of a .pte file, run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.backends.arm.arm_vela import vela_compile
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.ethosu.compile_spec import VelaExternalBlockPlacements
from executorch.backends.cortex_m.passes.replace_quant_nodes_pass import ReplaceQuantNodesPass
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch.exir import EdgeCompileConfig
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

from eqsat.executorch.binaries import run_model
from eqsat.executorch.loading import quantize
from eqsat.executorch.pte import Quantization, delegates, read_external_data
from eqsat.ground.files import InputError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tosa import dumps
from tests import command
from tests.graphs import compile_graph, residual
from tests.networks import Network
from tests.term import graph


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_flash_is_what_commands_and_weights_take_in_a_payload(target: str, worker: Worker) -> None:
    """Also of a graph without weights."""
    sizes = []
    for g in (graph("x:INT8[1,16,16,8]", lambda x: x.nchw()), residual()):
        payload = vela_compile(dumps(g), list(Target.of(target).flags)).processed_bytes
        taken, at = 0, 0
        while at < len(payload):
            name, size = payload[at : at + 16].rstrip(b"\0"), int.from_bytes(payload[at + 16 : at + 20], "little")
            padded = -(-size // 16) * 16
            taken, at = taken + padded * (name in (b"cmd_data", b"weight_data")), at + 32 + padded
        footprint = compile_graph(g, Target.of(target), worker).footprint
        assert footprint.payload == taken
        sizes.append(footprint.weights)
    assert sizes[0] == 0 < sizes[1]


@pytest.fixture(scope="module")
def two() -> bytes:
    """Two delegates around a sort; one input and the outputs have names in the program."""

    def made(self: Network, x: torch.Tensor, more: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        y = torch.relu(self.a(x)) + more["mask"]
        return {"file": self.b(torch.sort(y, dim=-1)[0]), "y": y}

    spec, network = (
        EthosUCompileSpec("ethos-u55-128"),
        Network(made, a=torch.nn.Conv2d(4, 8, 1), b=torch.nn.Conv2d(8, 8, 1)),
    )
    inputs = torch.randn(1, 4, 8, 8), {"mask": torch.randn(1, 8, 8, 8)}
    edge = stock_lowering(quantize(network.eval(), inputs, spec, [inputs]), partitioner=[EthosUPartitioner(spec)])
    return edge.to_executorch().buffer


@pytest.mark.slow
def test_a_delegate_runs_as_its_program_names_and_quantizes(two: bytes, worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 Ethos-U delegates .forward/0, forward/1.: choose one with --delegate"):
        run_model(two, 0, worker)
    with pytest.raises(InputError, match="no delegate 'forward/2' in the program; it has forward/0, forward/1"):
        run_model(two, 0, worker, delegate="forward/2")
    first = run_model(two, 0, worker, delegate="forward/0")
    assert list(first.inputs) == ["x0", "mask"] and list(first.outputs) == ["y"]
    floats = {n: v.real for n, v in reversed(first.inputs.items())}
    assert all(x.dtype == np.float32 for x in floats.values())
    again = run_model(two, floats, worker, delegate="forward/0")
    assert np.array_equal(again.outputs["y"].data, first.outputs["y"].data)
    with pytest.raises(InputError, match=r"x0 int8\[1, 4, 8, 8\] .scale .*, mask int8.*; given are mask$"):
        run_model(two, {"mask": floats["mask"]}, worker, delegate="forward/0")

    program, x, y = tmp_path / "two.pte", tmp_path / "x.npz", tmp_path / "y.npz"
    program.write_bytes(two)
    np.savez(x, again.outputs["y"].real)
    told = command.run("run", program, "--delegate", "forward/1", "--inputs", x, "--dequantize", "-o", y)
    assert told.exit_code == 0 and "outputs: file int8[1, 8, 8, 8] (scale" in told.stdout, told.output
    assert np.load(y)["file"].dtype == np.float32


@pytest.mark.slow
def test_a_bundled_program_with_borders_of_cortex_m_runs_on_its_test_case(tmp_path: Path) -> None:
    """Both are what Arm's script makes by default (`--bundleio`, `ReplaceQuantNodesPass`)."""
    spec, x = EthosUCompileSpec("ethos-u55-128"), torch.randn(1, 4, 8, 8)
    single = Network(lambda self, x: torch.relu(x + 1)).eval()
    edge = stock_lowering(
        quantize(single, (x,), spec, [(x,)]),
        partitioner=[EthosUPartitioner(spec)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    ).transform([ReplaceQuantNodesPass()])
    program = edge.to_executorch()
    suite = MethodTestSuite("forward", [MethodTestCase([x], [single(x)])])
    bundle, out = tmp_path / "single.bpte", tmp_path / "y.npz"
    bundle.write_bytes(serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, [suite])))
    (delegate,) = delegates(program.buffer)
    assert any("cortex_m" in op for op in delegate.outside) and all(p.quantization for p in delegate.ports)
    told = command.run("run", bundle, "-o", out, "--dequantize")
    assert told.exit_code == 0 and "compared with the test case: y0 differs by at most" in told.output, told.output
    assert np.abs(np.load(out)["y0"] - single(x).numpy()).max() < 0.1
    bundle.write_bytes(bundle.read_bytes()[:400])
    told = command.run("run", bundle, "-o", out)
    assert told.exit_code == 2 and "no bundled program" in told.output, told.output
    bundle.write_bytes(delegate.payload)
    told = command.run("run", bundle, "--random", "0", "-o", out, "--dequantize")
    assert told.exit_code == 2 and "no scale of an output is known" in told.output, told.output


def lowered(placements: VelaExternalBlockPlacements | None, directory: Path) -> Path:
    """Stock's lowering of a convolution: the .pte in a directory, with its .ptd files beside it."""
    directory.mkdir()
    torch.manual_seed(0)
    spec, x = EthosUCompileSpec("ethos-u55-128", external_block_placements=placements), torch.randn(1, 4, 8, 8)
    exported = quantize(torch.nn.Conv2d(4, 8, 3).eval(), (x,), spec, [(x,)])
    program = stock_lowering(exported, partitioner=[EthosUPartitioner(spec)]).to_executorch()
    (directory / "model.pte").write_bytes(program.buffer)
    program.write_tensor_data_to_file(directory)
    return directory / "model.pte"


@pytest.mark.slow
def test_a_delegate_is_read_with_what_it_keeps_in_ptd_files(tmp_path: Path) -> None:
    inside = lowered(None, tmp_path / "inside")
    apart = lowered(VelaExternalBlockPlacements("commands", "weights"), tmp_path / "apart")
    files = sorted(apart.parent.glob("*.ptd"))
    assert [f.name for f in files] == ["commands.ptd", "weights.ptd"]
    for file in files:
        found = FlatTensorSerializer().deserialize(file.read_bytes())
        keys = {k: found.buffers[entry.buffer_index] for k, entry in found.named_data.items()}
        assert len(keys) == 1 and read_external_data(file.read_bytes(), "") == keys

    given = [a for f in files for a in ("--data", f)]
    for program, more in ((inside, []), (apart, given)):
        told = command.run("run", program, *more, "--random", "0", "-o", program.with_name("y.npz"))
        assert told.exit_code == 0, told.output
    x, y = (np.load(p.with_name("y.npz")) for p in (inside, apart))
    assert all(np.array_equal(x[n], y[n]) for n in ("x0", "y0")) and x["y0"].std() > 1
    assert command.run("disassemble", inside).output == command.run("disassemble", apart, *given).output

    for more, message in (
        ([], "model.pte: the payload keeps 'cmd_data' elsewhere"),
        (given[:2], "model.pte: the payload keeps 'weight_data' elsewhere"),
        (["--data", inside], "inside/model.pte: no .ptd file"),
    ):
        for told in (
            command.run("run", apart, *more, "--random", "0", "-o", tmp_path / "z.npz"),
            command.run("disassemble", apart, *more),
        ):
            assert told.exit_code == 2 and message in "".join(told.output.splitlines()), told.output
    assert not (tmp_path / "z.npz").exists()


@pytest.mark.slow
def test_a_program_in_channels_last_runs_on_tensors_of_its_shape(worker: Worker) -> None:
    spec, x = EthosUCompileSpec("ethos-u55-128"), torch.randn(1, 3, 8, 6).to(memory_format=torch.channels_last)
    program = quantize(torch.nn.Conv2d(3, 4, 3, padding=1).eval(), (x,), spec, [(x,)])
    buffer = stock_lowering(program, partitioner=[EthosUPartitioner(spec)]).to_executorch().buffer
    (y,) = run_model(buffer, [x.numpy()], worker).outputs.values()
    assert y.data.shape == (1, 4, 8, 6)
    assert np.array_equal(y.real, program.module()(x).detach().numpy())


@pytest.mark.slow
def test_a_program_is_read_without_pytorch_and_as_with_it(two: bytes, tmp_path: Path) -> None:
    (tmp_path / "two.pte").write_bytes(two)
    script = (
        "import sys; from pathlib import Path; from eqsat.executorch.pte import delegates;"
        "found = [delegates(Path(sys.argv[1]).read_bytes()) for _ in range(2)]; assert found[0] == found[1];"
        "assert not {'torch', 'executorch.exir'} & set(sys.modules); print(found[0])"
    )
    printed = command.python("-c", script, tmp_path / "two.pte", check=True)
    program, found = deserialize_pte_binary(two).program, delegates(two)
    assert printed.stdout == f"{found}\n" and len(found) == 2
    assert [d.payload for d in found] == [d.data for d in program.backend_delegate_data]


def test_quantization_is_that_of_the_program() -> None:
    how = Quantization(0.0264, -2, -128, 127)
    x = np.random.default_rng(0).uniform(-5, 5, 4096).astype(np.float32)
    ops, limits = torch.ops.quantized_decomposed, (-2, -128, 127, torch.int8)
    wanted = ops.quantize_per_tensor(torch.tensor(x), 0.0264, *limits)
    assert np.array_equal(how.quantize(x, 1), wanted.numpy())
    real = ops.dequantize_per_tensor(wanted, 0.0264, *limits).numpy()
    assert np.array_equal(how.dequantize(wanted.numpy()), real)


@pytest.mark.parametrize("data", [b"", b"1234ET12" + bytes(100), bytes(64)])
def test_a_file_that_is_none_is_named(data: bytes) -> None:
    with pytest.raises(InputError, match="no .pte file"):
        delegates(data)
