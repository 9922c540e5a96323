"""The names of PyTorch, from the exported program to what eqsat made of it."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.devtools.etrecord import ETRecord, parse_etrecord
from executorch.exir import to_edge_transform_and_lower

import eqsat
from eqsat.executorch.loading import quantize
from eqsat.options.options import Options
from eqsat.search.optimizer import Result
from eqsat.tosa import loads
from eqsat.tosa.flatbuffer import tensor_names
from eqsat.tosa.locations import read
from tests.networks import Network

pytestmark = pytest.mark.slow


def block() -> Network:
    conv, act = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.Tanh()
    return Network(lambda self, x: self.act(self.conv(x)), conv=conv, act=act)


def net() -> Network:
    """Two blocks, a sum, and channels as pixels."""
    made = lambda self, x: torch.nn.functional.pixel_shuffle(self.second(self.first(x)) + x, 2)  # noqa: E731
    return Network(made, first=block(), second=block())


def quantized(spec: EthosUCompileSpec) -> torch.export.ExportedProgram:
    return quantize(net().eval(), (torch.randn(1, 8, 16, 16),), spec)


@dataclass(frozen=True)
class Lowered:
    program: torch.export.ExportedProgram
    result: Result
    record: ETRecord


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    place, spec = tmp_path_factory.mktemp("lowered"), EthosUCompileSpec("ethos-u85-256")
    program = quantized(spec)
    options = Options(effort=1, cache=place / "prices", binary_time_limit=0, max_sram="any", max_flash="any")
    partitioner = eqsat.EthosUPartitioner(spec, options=options)
    edge = to_edge_transform_and_lower(copy.deepcopy(program), partitioner=[partitioner], generate_etrecord=True)
    edge.to_executorch().get_etrecord().save(place / "record.bin")
    (result,) = partitioner.session.results
    return Lowered(program, result, parse_etrecord(place / "record.bin"))


def test_every_operator_is_named_as_in_the_exported_program(lowered: Lowered) -> None:
    names, result = {n.name for n in lowered.program.graph.nodes}, lowered.result
    for buffer in (result.explicit, result.tosa):
        graph, numbers, origins = loads(buffer), tensor_names(buffer), read(buffer)
        known = {numbers[t] for t in origins}
        assert [n for n in graph.live() if graph.nodes[n].op not in ("input", "const") and n not in known] == []
        assert {o.node for found in origins.values() for o in found} <= names
        assert all(o.handle is not None for found in origins.values() for o in found)
    assert result.chosen == "eqsat"


def test_modules_are_those_of_the_network(lowered: Lowered) -> None:
    result = lowered.result
    graph, numbers = loads(result.tosa), tensor_names(result.tosa)
    by_op: dict[str, set[str]] = {}
    for tensor, origins in result.origins.items():
        by_op.setdefault(graph.nodes[numbers[tensor]].op, set()).update(o.module for o in origins)
    assert by_op["conv2d"] == {"first.conv", "second.conv"}
    assert by_op["table"] == {"first.act", "second.act"}, "ExecuTorch's pass for tables drops their names"
    assert by_op["add"] == {""}, "the network itself"
    rows = [r for r in result.table if r["operator"].lower() == "conv2d"]
    assert {o["module"] for r in rows for o in r["origins"]} == {"first.conv", "second.conv"}


def test_locations_do_not_depend_on_the_machine(lowered: Lowered) -> None:
    """They are part of what benchmarks know a graph by."""
    assert str(Path.home()).encode() not in lowered.result.explicit and b".py" not in lowered.result.explicit


def test_debug_information_is_written_as_executorch_writes_it(tmp_path: Path) -> None:
    spec = EthosUCompileSpec("ethos-u85-256")
    spec.dump_intermediate_artifacts_to(str(tmp_path)).dump_debug_info(EthosUCompileSpec.DebugMode.JSON)
    _, session = eqsat.lower_with_session(quantized(spec), spec, options=Options(effort=0, binary_time_limit=0))
    (result,) = session.results
    (file,) = tmp_path.glob("output_forward_0_*.tosa")
    assert file.read_bytes() == result.tosa
    events = json.loads((tmp_path / "debug.json").read_text())
    assert [e["event_id"] for e in events] == list(range(len(events)))
    assert {e["tosa_info"]["node_name"] for e in events} == set(result.origins)
    conv = next(e for e in events if "CONV2D" in e["tosa_info"]["operator_name"])
    assert conv["delegate"] == "forward/0" and set(conv["aten_info"]) == {"node_name", "operator_name"}
    assert any("first.conv" in str(m) for m in conv["torch_info"]["nn_module_stack"].values())
    assert "self.made(self, *inputs)" in "".join(conv["torch_info"]["stack_trace"]) and conv["torch_info"]["node_trace"]


def test_an_etrecord_knows_the_debug_handles_within_a_delegate(lowered: Lowered) -> None:
    result, record = lowered.result, lowered.record
    (delegate,) = record._delegate_map["forward"].values()
    told = delegate["delegate_map"]
    assert delegate["name"] == "EthosUBackend"
    assert told.keys() == {name for name, origins in result.origins.items() if origins}
    known = {o.handle for origins in result.origins.values() for o in origins}
    assert {h for handles in told.values() for h in handles} == known
    assert known <= {n.meta.get("debug_handle") for n in record.edge_dialect_program.graph.nodes}
