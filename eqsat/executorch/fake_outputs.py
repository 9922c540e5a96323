"""Types of outputs that PyTorch computes though they are known.

- Fake tensors remember the outputs of PyTorch's own operators by the types of their arguments
  (`torch/_subclasses/fake_tensor.py`, _validate_cache_key).
  Those of quantized graphs and of TOSA depend on nothing else, either.
- Every pass interprets a copy of the graph of each delegate to know the types of its outputs
  (`torch/_higher_order_ops/executorch_call_delegate.py`), which are in the graph's metadata.

Source of the facts: torch 2.13, executorch 1.5.1.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.arm.tosa.specification import get_context_spec
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import _BypassDispatchCache, _DispatchCacheKey
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

#: Namespaces of operators the types of whose outputs depend on the types of their arguments alone.
_QUANTIZED, _TOSA = "quantized_decomposed", "tosa"

_validate = FakeTensorMode._validate_cache_key
_key = FakeTensorMode._cache_key
#: The package has an operator of the module's name.
_delegates = importlib.import_module("torch._higher_order_ops.executorch_call_delegate")
_call_delegate = _delegates.call_delegate_cpu


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yields objects, names of their attributes and values by which fewer outputs are computed."""
    yield FakeTensorMode, "cache", {}  # the other one knows operators that it may not know
    yield FakeTensorMode, "_validate_cache_key", _validate_key
    yield FakeTensorMode, "_cache_key", _key_with_specification
    yield _delegates, "call_delegate_cpu", _called


def _validate_key(mode: FakeTensorMode, func: Any, args: Any, kwargs: Any) -> None:
    """Raises _BypassDispatchCache for an operator whose outputs may not be known."""
    if func.namespace not in (_QUANTIZED, _TOSA) or func._schema.is_mutable:
        _validate(mode, func, args, kwargs)


def _key_with_specification(mode: FakeTensorMode, state: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Returns the key of an operator's outputs; what TOSA allows depends on the specification."""
    key = _key(mode, state, func, args, kwargs)
    if func.namespace != _TOSA:
        return key
    if state.known_symbols:
        raise _BypassDispatchCache("TOSA with symbols")
    return _DispatchCacheKey((*key.key, get_context_spec()))


def _called(lowered: Any, *args: Any) -> Any:
    """Returns the outputs of a delegate."""
    outputs = _typed_outputs(lowered.original_module, args)
    return _call_delegate(lowered, *args) if outputs is None else outputs


def _typed_outputs(program: ExportedProgram, args: tuple[Any, ...]) -> Any:
    """Returns fake outputs of a delegate; None if its metadata may not tell their types.

    The arguments have to be fake tensors of the types that it was lowered for.
    Whether floating-point outputs require gradients depends on where they are computed.
    """
    signature = program.graph_signature
    values: dict[object, Any] = {n.name: n.meta.get("val") for n in program.graph.nodes}
    given: list[Any] = [values.get(name) for name in signature.user_inputs]
    out: list[Any] = [values.get(name) for name in signature.user_outputs]
    if not args or len(out) != len(signature.output_specs) or not all(map(_is_static, (*args, *given, *out))):
        return None
    if [_type(a) for a in args] != [_type(v) for v in given] or any(v.dtype.is_floating_point for v in out):
        return None
    with args[0].fake_mode:
        fake = [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) for v in out]
    return pytree.tree_unflatten(fake, program.call_spec.out_spec)


def _is_static(value: Any) -> bool:
    return isinstance(value, FakeTensor) and not value._has_symbolic_sizes_strides


def _type(value: torch.Tensor) -> tuple[Any, ...]:
    return value.dtype, value.device, tuple(value.shape), value.stride()
