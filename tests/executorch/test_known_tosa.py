"""The TOSA of a program that was lowered before: taken again, and only where nothing that decides it has changed."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from executorch.backends.arm._passes import FoldAndAnnotateQParamsPass, arm_pass_manager
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
from executorch.backends.arm.operators.op_tosa_abs import AbsVisitor
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

import eqsat
from eqsat.executorch import arm, backend
from eqsat.executorch.known_tosa import KnownTosa
from eqsat.executorch.quantize import quantize
from eqsat.options.options import Options
from eqsat.store.store import LOWERINGS, Store
from tests.networks import Network

#: A network is lowered for all of them.
pytestmark = pytest.mark.slow

TARGET = "ethos-u55-128"
Delegate = tuple[ExportedProgram, list[CompileSpec]]


def turned() -> Network:
    def made(self: Network, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))).transpose(1, 2)

    return Network(made, first=torch.nn.Conv2d(4, 4, 3), second=torch.nn.Linear(6, 8))


def quantized(seed: int = 0) -> ExportedProgram:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return quantize(turned().eval(), (torch.randn(1, 4, 8, 8),), EthosUCompileSpec(TARGET))


def given(program: ExportedProgram, options: Options) -> tuple[Delegate, bytes]:
    """What the backend is given for the only delegate of a program, and the .pte."""
    seen: list[Delegate] = []

    def noted(program: ExportedProgram, specs: list[CompileSpec], *rest: object) -> object:
        seen.append((copy.deepcopy(program), specs))
        return original(program, specs, *rest)

    original = backend._result
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "_result", noted)
        edge, session = eqsat.lower_with_session(program, EthosUCompileSpec(TARGET), options=options)
    assert not session.stepped_back
    (delegate,) = seen
    return delegate, edge.to_executorch().buffer


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Delegate, bytes, Options]:
    options = Options(effort=0, cache=tmp_path_factory.mktemp("store"))
    return *given(quantized(), options), options


@pytest.fixture
def delegate(lowered: tuple[Delegate, bytes, Options]) -> Delegate:
    program, specs = lowered[0]
    return copy.deepcopy(program), specs


@pytest.fixture
def place(lowered: tuple[Delegate, bytes, Options]) -> Path:
    return Path(str(lowered[2].cache))


def known(delegate: Delegate, place: Path) -> KnownTosa:
    found = KnownTosa.of(*delegate, place)
    assert found is not None
    return found


def test_the_same_program_is_lowered_once(
    lowered: tuple[Delegate, bytes, Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("it is lowered again")

    monkeypatch.setattr(backend, "lower", fails)
    _, pte, options = lowered
    assert given(quantized(), options)[1] == pte
    assert given(quantized(), replace(options, effort=1))[1], "another search has the same TOSA"


def test_what_is_known_is_what_the_pipeline_gives(delegate: Delegate, place: Path) -> None:
    program, specs = delegate
    hook = known(delegate, place).hook()
    assert hook is not None
    spec = TOSABackend.filter_tosa_compile_specs(EthosUCompileSpec._from_list(specs))
    again = arm.lower(EthosUBackend.copy_exported_program_for_preprocess(program, specs), spec)
    assert (hook.explicit, hook.stock.tosa) == (again.explicit, again.stock.tosa)


@pytest.mark.parametrize("changed", ["weights", "argument", "operator", "mark", "handle", "name", "spec"])
def test_what_decides_the_tosa_decides_the_entry(changed: str, delegate: Delegate, place: Path) -> None:
    program, specs = delegate[0], list(delegate[1])
    assert known((program, specs), place).hook() is not None
    call, permute, relu = (
        next(n for n in program.graph.nodes if n.op == "call_function" and word in str(n.target))
        for word in ("", "permute", "relu")
    )
    match changed:
        case "weights":
            name = next(n for n, x in program.state_dict.items() if x.dtype == torch.int8)
            program.state_dict[name] = program.state_dict[name].clone()
            program.state_dict[name].view(-1)[0] ^= 1
        case "argument":
            permute.args = (permute.args[0], list(reversed(permute.args[1])))
        case "operator":
            relu.target = torch.ops.aten.abs.default
        case "mark":
            call.meta["custom"] = {"an_annotation": 1}
        case "handle":
            call.meta["debug_handle"] = 12345
        case "name":
            call.name = "another"
        case "spec":
            specs[0] = CompileSpec(specs[0].key, bytes(specs[0].value) + b"+int16")
    assert known((program, specs), place).hook() is None


def test_a_program_that_cannot_be_told_has_no_entry(delegate: Delegate, place: Path) -> None:
    node = next(n for n in delegate[0].graph.nodes if n.op == "call_function")
    node.meta["custom"] = object()
    assert KnownTosa.of(*delegate, place) is None


def test_with_a_pass_or_a_visitor_of_the_users_nothing_is_known(delegate: Delegate, place: Path) -> None:
    arm_pass_manager.register_pass_insertions_after(FoldAndAnnotateQParamsPass, [])
    try:
        assert KnownTosa.of(*delegate, place) is None
    finally:
        arm_pass_manager.clear_registered_pass_insertions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AbsVisitor, "__module__", "a_module_of_the_users")
        assert KnownTosa.of(*delegate, place) is None
    assert known(delegate, place).hook() is not None


@pytest.fixture
def filled(delegate: Delegate, place: Path, tmp_path: Path) -> Iterator[tuple[KnownTosa, Store]]:
    """A store of its own with an entry for the delegate."""
    entry, hook = known(delegate, tmp_path), known(delegate, place).hook()
    assert hook is not None
    entry.keep(hook.explicit, hook.stock.tosa or b"")
    assert entry.hook() is not None
    with closing(Store(tmp_path)) as store:
        yield entry, store


def test_a_forged_entry_is_not_used(filled: tuple[KnownTosa, Store]) -> None:
    entry, store = filled
    data = store.get(LOWERINGS, [entry.name])[entry.name]
    for forged in (b"", data[:32], data[:-1], data[:32] + data[32:].replace(b"TOSA", b"TOSB"), bytes(32) + data[32:]):
        store.put(LOWERINGS, {entry.name: forged})
        assert entry.hook() is None, "its checksum is right"
    replace(entry, key=b"k" * 32).keep(b"explicit", b"stock")
    assert entry.hook() is None
    other = replace(entry, name="another")
    store.put(LOWERINGS, {other.name: data})
    assert other.hook() is None


def test_without_a_key_nothing_is_known(filled: tuple[KnownTosa, Store], delegate: Delegate, tmp_path: Path) -> None:
    key = tmp_path / "store.key"
    assert key.stat().st_mode & 0o777 == 0o600 and known(delegate, tmp_path).key == key.read_bytes()
    key.write_bytes(b"short")
    assert KnownTosa.of(*delegate, tmp_path) is None
    key.unlink()
    assert known(delegate, tmp_path).hook() is None, "a new key has signed nothing"
    key.unlink()
    key.mkdir()
    assert KnownTosa.of(*delegate, tmp_path) is None
    key.rmdir()
    os.mkfifo(key)
    assert KnownTosa.of(*delegate, tmp_path) is None
