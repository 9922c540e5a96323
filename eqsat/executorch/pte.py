"""The Ethos-U delegates of a .pte file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import DelegateCall, KernelCall

from eqsat.ground.files import InputError

_BACKEND = "EthosUBackend"


@dataclass(frozen=True, slots=True)
class EmbeddedDelegate:
    """payload: what the backend is handed at run time; outside: operators of the program that no delegate does."""

    payload: bytes
    outside: tuple[str, ...]


def delegates(buffer: bytes) -> list[EmbeddedDelegate]:
    """Those of the Ethos-U backend, in their order. Raises InputError."""
    try:
        program = deserialize_pte_binary(buffer).program
    except Exception as e:  # noqa: BLE001 - whatever ExecuTorch raises for a file that is none
        raise InputError(
            f"no .pte file that ExecuTorch reads: {type(e).__name__}: {' '.join(str(e).split())[:200]}"
        ) from e
    if not program.execution_plan:
        raise InputError("no .pte file that ExecuTorch reads: it has no execution plan")
    plan = program.execution_plan[0]
    calls: list[Any] = [i.instr_args for chain in plan.chains for i in chain.instructions]
    outside = tuple(plan.operators[c.op_index].name for c in calls if isinstance(c, KernelCall))
    called = [plan.delegates[c.delegate_index] for c in calls if isinstance(c, DelegateCall)]
    inline = program.backend_delegate_data
    return [EmbeddedDelegate(bytes(inline[d.processed.index].data), outside) for d in called if d.id == _BACKEND]
