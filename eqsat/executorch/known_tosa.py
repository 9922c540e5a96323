"""The TOSA of delegates that were lowered before (`arm.py`), so that the same program is not lowered again.

An entry is found by all that decides it: the program, its compile specs, and the code of ExecuTorch and of eqsat.
A program with something that has no text here is lowered each time, as is one where the user added passes or visitors.
The explicit graph defines the meaning of a delegate, so no entry may be forged.
Entries are signed with a key beside the store, which is neither exported nor shared.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from eqsat.executorch.arm import HookPoint, Tail, origin
from eqsat.ground.digest import digest
from eqsat.ground.files import is_special
from eqsat.ground.versions import code, versions
from eqsat.store.setting import Setting
from eqsat.store.store import LOWERINGS, Store

logger = logging.getLogger(__name__)

#: Packages of ExecuTorch whose code lowers a delegate.
_LOWERING = ("executorch.backends.arm", "executorch.backends.transforms", "executorch.exir")
#: Packages whose versions decide what that code does.
_PACKAGES = ("executorch", "torch", "tosa-tools")
#: Entries of a node's `meta` that nothing of a delegate depends on.
#: The parts of traces that locations tell are in the node's origin.
_NO_PART = frozenset(
    {"from_node", "nn_module_stack", "stack_trace", "seq_nr", "eager_input_vals", "desc", "tensor_meta", "debug_handle"}
)
#: Bytes of a key and of a signature.
_KEY = 32
#: Bytes of the length of the first graph.
_LENGTH = 8


class _NoText(Exception):
    """A program has something whose content this module cannot tell."""


def known_or_lowered(
    program: ExportedProgram, specs: Sequence[CompileSpec], place: str | Path | None, lowered: Callable[[], HookPoint]
) -> HookPoint:
    """Returns the graphs of a delegate from the store, else by `lowered`, after which the store has them.

    place: of the store.
    Raises what `lowered` raises.
    """
    known = KnownTosa.of(program, specs, place)
    if known is None:
        return lowered()
    if (found := known.hook()) is not None:
        return found
    hook = lowered()
    if hook.stock.tosa is not None:
        known.keep(hook.explicit, hook.stock.tosa)
    return hook


@dataclass(frozen=True, slots=True)
class KnownTosa:
    """The TOSA of one delegate in the store.

    name: the digest of all that decides it.
    place: of the store.
    key: what entries are signed with.
    """

    name: str
    place: str | Path | None
    key: bytes

    @staticmethod
    def of(program: ExportedProgram, specs: Sequence[CompileSpec], place: str | Path | None) -> KnownTosa | None:
        """Returns the entry for a delegate; None if its content cannot be told, or nothing can be signed."""
        try:
            key = _key(Setting.of(place).file.with_suffix(".key"))
            return KnownTosa(digest(_parts(program, specs)), place, key)
        except Exception as e:  # noqa: BLE001 - what is not known costs the time of a lowering
            logger.debug("a delegate is not remembered: %s: %s", type(e).__name__, e)
            return None

    def hook(self) -> HookPoint | None:
        """Returns the graphs of the delegate; None if they are not known."""
        with closing(Store(self.place)) as store:
            entry = store.get(LOWERINGS, [self.name]).get(self.name, b"")
        signature, content = entry[:_KEY], entry[_KEY:]
        if not hmac.compare_digest(signature, self._signature(content)):
            return None
        length = int.from_bytes(content[:_LENGTH], "little")
        explicit, stock = content[_LENGTH : _LENGTH + length], content[_LENGTH + length :]
        return HookPoint(explicit, Tail(stock))

    def keep(self, explicit: bytes, stock: bytes) -> None:
        """Stores the graphs of the delegate."""
        content = len(explicit).to_bytes(_LENGTH, "little") + explicit + stock
        with closing(Store(self.place)) as store:
            store.put(LOWERINGS, {self.name: self._signature(content) + content})

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self.key, self.name.encode() + b"\0" + content, hashlib.sha256)


def _key(path: Path) -> bytes:
    """Returns the key at a path, which is made if there is none. Raises OSError, and ValueError if it is no key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
        f.write(secrets.token_bytes(_KEY))
    key = b"" if is_special(path) else path.read_bytes()  # to open a pipe waits for its other end
    if len(key) != _KEY:
        raise ValueError(f"{path} is no key")
    return key


def _parts(program: ExportedProgram, specs: Sequence[CompileSpec]) -> Iterator[bytes]:
    """Returns all that decides the TOSA of a delegate. Raises _NoText."""
    if _is_extended(specs):
        raise _NoText("ExecuTorch's pipeline has parts that are not its own")
    told = [repr((spec.key, bytes(spec.value))) for spec in specs]
    for part in (_code_of_executorch(), code(), sys.version, repr(versions(_PACKAGES)), *told, *_texts(program)):
        yield part.encode()
    for constants in (program.state_dict, program.constants):
        for name, value in constants.items():
            if not isinstance(value, torch.Tensor):
                raise _NoText(f"constant {name}")
            yield f"{name} {_text(value)}".encode()
            yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _is_extended(specs: Sequence[CompileSpec]) -> bool:
    """Whether the user's own passes or node visitors take part in ExecuTorch's pipeline."""
    from executorch.backends.arm._passes.arm_pass_manager import _registered_pass_insertions
    from executorch.backends.arm._passes.exir_to_tosa_pass import ExirToTosaPass
    from executorch.backends.arm.operators.node_visitor import get_node_visitors

    visitors = get_node_visitors(EthosUCompileSpec._from_list(list(specs)).tosa_spec).values()
    parts = [*map(type, visitors), *ExirToTosaPass._DIALECT_SUBSTITUTIONS.values()]
    return bool(_registered_pass_insertions) or any(not p.__module__.startswith("executorch.") for p in parts)


def _texts(program: ExportedProgram) -> Iterator[str]:
    """Returns the texts of a program's signature and nodes. Raises _NoText."""
    yield repr(program.graph_signature)
    for n in program.graph.nodes:
        if n.op == "get_attr":
            raise _NoText(n.name)
        told = {k: v for k, v in n.meta.items() if k not in _NO_PART}
        yield " ".join([n.op, n.name, *map(_text, (n.target, n.args, n.kwargs, told)), repr(origin(n))])


def _text(value: Any) -> str:
    """Returns the text of an argument or an entry of `meta`. Raises _NoText."""
    match value:
        case None | bool() | int() | float() | str():
            return repr(value)
        case Node():
            return f"%{value.name}"
        case torch.Tensor():
            return f"{value.dtype}{list(map(_text, value.shape))}{list(map(_text, value.stride()))}{value.device}"
        case torch.dtype() | torch.layout() | torch.memory_format() | torch.device():
            return str(value)
        case list() | tuple():
            return f"{type(value).__name__}({', '.join(map(_text, value))})"
        case Mapping():
            return f"{{{', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())}}}"
        case OpOverload() | EdgeOpOverload():
            return str(value)
        case BuiltinFunctionType():  # such as operator.getitem
            return f"{value.__module__}.{value.__qualname__}"
    raise _NoText(f"{type(value).__name__}")


@cache
def _code_of_executorch() -> str:
    """Returns sizes and times of change of the files with ExecuTorch's code."""
    found = (find_spec(name) for name in _LOWERING)
    roots = [Path(place) for spec in found if spec for place in spec.submodule_search_locations or ()]
    files = sorted(f for root in roots for f in root.rglob("*.py"))
    return repr([(str(f), s.st_size, s.st_mtime_ns) for f in files for s in (f.stat(),)])
