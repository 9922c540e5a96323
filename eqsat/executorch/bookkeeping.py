"""A lowering without PyTorch's unread bookkeeping: an equal program in about two thirds of the time.

- Every node that a pass writes copies the history of its source (`torch/fx/traceback.py`,
  NodeSource).
  Histories are never changed, so nodes can share them.
- Every pass writes and compiles the Python code of its graph (`torch/fx/graph_module.py`,
  GraphModule.recompile), though passes interpret graphs.
  Here that is done if the code is read, and for the graphs that are left at the end.
- Every decomposition of a program collects the operators of each namespace that C++ decomposes.
  For each of some 40 namespaces it looks up all of C++'s operators (`torch/_export/utils.py`,
  _materialize_cpp_cia_ops), so that `torch.ops` has them.
  Here that is done if C++ has others than the last time.
- Every pass over a program with delegates copies the graph of each delegate and interprets it, to
  know the types of its outputs (`torch/_higher_order_ops/executorch_call_delegate.py`).
  They are in the graph's metadata.
- The garbage collector walks repeatedly through all of PyTorch, which is no garbage.

`benchmarks/whole_job.py` measures the gain.
Source of the facts: torch 2.13.
"""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

import torch
from torch._export import utils as export_utils
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.traceback import NodeSource
from torch.utils import _pytree as pytree

from eqsat.ground.garbage import collect_rarely

_recompile = GraphModule.recompile
_reduce = GraphModule.__reduce__
_materialize = export_utils._materialize_cpp_cia_ops
#: The package has an operator of the module's name.
_delegates = importlib.import_module("torch._higher_order_ops.executorch_call_delegate")
_call_delegate = _delegates.call_delegate_cpu


@contextmanager
def less_bookkeeping() -> Iterator[None]:
    """Lowers with less bookkeeping; graphs, their metadata and the .pte do not differ.

    Only one is active per process: a nested one does nothing.
    """
    if "__deepcopy__" in vars(NodeSource):
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_rare_collections())
        stack.enter_context(patch.object(NodeSource, "__deepcopy__", lambda source, memo: source, create=True))
        stack.enter_context(patch.object(export_utils, "_materialize_cpp_cia_ops", _materializing()))
        stack.enter_context(patch.object(_delegates, "call_delegate_cpu", _called))
        noted: weakref.WeakSet[GraphModule] = weakref.WeakSet()
        stack.callback(_compile, noted)
        stack.enter_context(patch.object(GraphModule, "recompile", _noting(noted)))
        stack.enter_context(patch.object(GraphModule, "__reduce__", _pickled))
        stack.enter_context(patch.object(GraphModule, "_code", _UnreadText(), create=True))
        yield


@contextmanager
def _rare_collections() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    before = collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


def _materializing() -> Callable[[], None]:
    """Returns a function that has `torch.ops` look up the operators that C++ decomposes, if there are others."""
    last: list[str] = []

    def materialize() -> None:
        nonlocal last
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if registered != last:
            _materialize()
            last = registered

    return materialize


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


class _Unread:
    """`forward` in the class of a graph module, which is its own, compiled when it is first read."""

    def __init__(self, module: GraphModule) -> None:
        self.module = weakref.ref(module)

    def __get__(self, instance: GraphModule | None, owner: type[GraphModule]) -> Any:
        if (module := instance if instance is not None else self.module()) is None:
            raise AttributeError("the graph module of this class is gone")
        _recompile(module)  # puts the function into the place of this
        return module.forward if instance is not None else owner.forward


class _UnreadText:
    """The text of a graph module's code, written when it is first read."""

    def __get__(self, instance: GraphModule, owner: type[GraphModule]) -> Any:
        _recompile(instance)
        return vars(instance)["_code"]


class _UnreadCode:
    """The result of `recompile`: the Python code, written when it is first read."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(_recompile(self._module), name)


def _noting(noted: weakref.WeakSet[GraphModule]) -> Callable[[GraphModule], Any]:
    def recompile(module: GraphModule) -> Any:
        if isinstance(module._graph._codegen, _PyTreeCodeGen):
            info = module._graph._codegen.pytree_info
            module._in_spec, module._out_spec = info.in_spec, info.out_spec
        vars(module).pop("_code", None)
        type(module).forward = _Unread(module)  # type: ignore[assignment]
        module._recompile_submodules()
        noted.add(module)
        return _UnreadCode(module)

    return recompile


def _pickled(module: GraphModule) -> Any:
    _compile([module])
    return _reduce(module)


def _compile(modules: Iterable[GraphModule]) -> None:
    """Compiles the modules whose code was not read yet, but for graphs that cannot be compiled."""
    for module in list(modules):
        if isinstance(vars(type(module)).get("forward"), _Unread):
            with suppress(Exception):
                _recompile(module)
