"""A lowering without PyTorch's unread bookkeeping: an equal program in about a third of the time.

- Every pass writes and compiles the Python code of its graph, though passes interpret graphs.
  Here that is done when the code is first read (`torch/fx/graph_module.py`, recompile).
- Fake tensors remember the outputs of PyTorch's own operators by the types of their arguments.
  Here also those of quantized graphs and of TOSA (`torch/_subclasses/fake_tensor.py`, _validate_cache_key).
- `tree_map` describes a tree's structure to map its leaves (`torch/utils/_pytree.py`).
- Each argument of a new node goes through four functions called `create_arg`, which look for modules, parameters and
  opaque objects first (`executorch/exir/pass_base.py`, `torch/fx`).
- Every node that a pass writes copies the history of its source, which is never changed (`torch/fx/traceback.py`).
- Every decomposition looks up all of C++'s operators for each of some 40 namespaces, so that `torch.ops` has them.
  Here that is done if C++ has others than the last time (`torch/_export/utils.py`, _materialize_cpp_cia_ops).
- The garbage collector walks repeatedly through all of PyTorch, which is no garbage.

`benchmarks/whole_job.py` measures the gain.
Another PyTorch than the one that these facts are of (torch 2.13, executorch 1.5.1) keeps its bookkeeping.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from executorch.backends.arm.tosa.specification import get_context_spec
from executorch.exir import pass_base
from torch._export import utils as export_utils
from torch._subclasses import FakeTensorMode, fake_tensor
from torch._subclasses.fake_tensor import _BypassDispatchCache, _DispatchCacheKey
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import PythonKeyTracer
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.proxy import _create_arg_bypass
from torch.fx.traceback import NodeSource
from torch.utils import _pytree as pytree

from eqsat.ground.garbage import collect_rarely

#: The version of PyTorch whose functions have equal ones here.
_TORCH = "2.13."


@contextmanager
def less_bookkeeping() -> Iterator[None]:
    """Lowers with less bookkeeping; graphs, their metadata and the .pte do not differ."""
    with ExitStack() as stack:
        stack.enter_context(_rare_collections())
        for where, name, value in _replacements() if torch.__version__.startswith(_TORCH) else ():
            stack.enter_context(patch.object(where, name, value, create=True))
        yield


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yields objects, names of their attributes and values by which the same takes less time."""
    yield GraphModule, "recompile", _leave_unread
    yield FakeTensorMode, "cache", {}  # the other one knows operators that it may not know
    yield FakeTensorMode, "_validate_cache_key", _validate_key
    yield FakeTensorMode, "_cache_key", _key_with_specification
    yield pytree, "tree_map", _map_tree
    yield fake_tensor, "tree_map", _map_tree
    for tracer in (PythonKeyTracer, pass_base.ExportPass.ExportTracer):
        yield tracer, "create_arg", _arguments(tracer.create_arg)
    yield NodeSource, "__deepcopy__", lambda source, memo: source
    yield export_utils, "_materialize_cpp_cia_ops", _materializing()


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


# ---- code of graphs -------------------------------------------------------------------------------

_recompile = GraphModule.recompile
#: Attributes of a module that `recompile` sets.
_TEXTS = ("_code", "_lineno_map", "_prologue_start")


class _UnreadCode:
    """The result of `recompile`: the Python code, written when it is first read."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(_recompile(self._module), name)


class _UnreadFunction:
    """`forward` in the class of a graph module, which is its own, compiled when it is first read."""

    def __init__(self, module: GraphModule) -> None:
        self.module = weakref.ref(module)

    def __get__(self, instance: GraphModule | None, owner: type[GraphModule]) -> Any:
        if (module := instance if instance is not None else self.module()) is None:
            raise AttributeError("the graph module of this class is gone")
        _recompile(module)  # puts the function into the place of this
        return module.forward if instance is not None else owner.forward


class _UnreadText:
    """An attribute in the class of a graph module, which `recompile` gives the module when it is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: GraphModule, owner: type[GraphModule]) -> Any:
        _recompile(instance)
        return vars(instance)[self._name]


def _leave_unread(module: GraphModule) -> _UnreadCode:
    """Takes the place of `GraphModule.recompile`: the code of a graph is written when something reads it."""
    if isinstance(module._graph._codegen, _PyTreeCodeGen):
        info = module._graph._codegen.pytree_info
        module._in_spec, module._out_spec = info.in_spec, info.out_spec
    own: Any = type(module)
    for name in _TEXTS:
        vars(module).pop(name, None)
        setattr(own, name, _UnreadText(name))
    own.forward, own.__reduce__ = _UnreadFunction(module), _reduce_module
    module._recompile_submodules()
    return _UnreadCode(module)


def _reduce_module(module: GraphModule) -> Any:
    """Returns what `pickle` asks for, which has the code; a class of the caller's may have its own way."""
    if isinstance(vars(type(module)).get("forward"), _UnreadFunction):
        _recompile(module)
    return super(type(module), module).__reduce__()


# ---- types of outputs -----------------------------------------------------------------------------

#: Namespaces of operators the types of whose outputs depend on the types of their arguments alone.
_QUANTIZED, _TOSA = "quantized_decomposed", "tosa"

_validate = FakeTensorMode._validate_cache_key
_key = FakeTensorMode._cache_key


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


# ---- trees, arguments, signatures and operators ---------------------------------------------------

#: Types whose values tracers look at more closely, as constants of a module or symbols.
_LONG = (torch.Tensor, torch.SymInt, torch.SymBool, torch.SymFloat)

_tree_map = pytree.tree_map
_materialize = export_utils._materialize_cpp_cia_ops

#: What makes an argument of a value, by the value's type, where no tracer looks for more in it.
_ARGUMENTS = {t: make for t, make in _create_arg_bypass.items() if t not in _LONG}


def _map_tree(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Returns a tree with `func` of each leaf."""
    if rests or is_leaf is not None:
        return _tree_map(func, tree, *rests, is_leaf=is_leaf)
    return _map(func, tree)


def _map(func: Callable[..., Any], tree: Any) -> Any:
    kind = type(tree)
    if kind is tuple:
        return tuple([_map(func, t) for t in tree])
    if kind is list:
        return [_map(func, t) for t in tree]
    if kind is immutable_list:
        return immutable_list([_map(func, t) for t in tree])
    if kind is dict or kind is immutable_dict:
        made = {k: _map(func, t) for k, t in tree.items()}
        return made if kind is dict else immutable_dict(made)
    return func(tree) if pytree.tree_is_leaf(tree) else _tree_map(func, tree)


def _arguments(create: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a tracer's `create_arg`."""

    def create_arg(tracer: Any, value: Any) -> Any:
        make = _ARGUMENTS.get(type(value))
        return create(tracer, value) if make is None else make(tracer, value)

    return create_arg


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
