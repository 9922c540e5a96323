"""The Ethos-U delegates of a .pte file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import DelegateCall, ExecutionPlan, KernelCall, Tensor

from eqsat.ground.files import InputError

#: The backend's name in a .pte.
_BACKEND = "EthosUBackend"


@dataclass(frozen=True, slots=True)
class EmbeddedDelegate:
    """An Ethos-U delegate of a program.

    payload: the bytes that the backend receives at run time.
    shapes: shapes of its inputs and outputs in the program.
    A value that is no tensor, or whose last axis is not innermost, has ().
    outside: operators of the program outside all delegates.
    """

    payload: bytes
    shapes: tuple[tuple[int, ...], ...]
    outside: tuple[str, ...]


def delegates(buffer: bytes) -> list[EmbeddedDelegate]:
    """Returns the delegates of the Ethos-U backend, in their order.

    Raises InputError.
    """
    try:
        program = deserialize_pte_binary(buffer).program
    except Exception as e:  # noqa: BLE001 - whatever ExecuTorch raises for a file that is none
        raise InputError(
            f"no .pte file that ExecuTorch reads: {type(e).__name__}: {' '.join(str(e).split())[:200]}"
        ) from e
    if not program.execution_plan:
        raise InputError("no .pte file that ExecuTorch reads: it has no execution plan")
    return [d for plan in program.execution_plan for d in _of_method(plan, program.backend_delegate_data)]


def _of_method(plan: ExecutionPlan, inline: Sequence[Any]) -> list[EmbeddedDelegate]:
    """Returns the delegates of one method, in their order."""
    calls: list[Any] = [i.instr_args for chain in plan.chains for i in chain.instructions]
    outside = tuple(plan.operators[c.op_index].name for c in calls if isinstance(c, KernelCall))
    called = [(plan.delegates[c.delegate_index], c) for c in calls if isinstance(c, DelegateCall)]
    return [
        EmbeddedDelegate(bytes(inline[d.processed.index].data), tuple(_shape(plan, i) for i in c.args), outside)
        for d, c in called
        if d.id == _BACKEND
    ]


def _shape(plan: ExecutionPlan, value: int) -> tuple[int, ...]:
    tensor = plan.values[value].val
    plain = isinstance(tensor, Tensor) and list(tensor.dim_order) == sorted(tensor.dim_order)
    return tuple(tensor.sizes) if plain else ()
