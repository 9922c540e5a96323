"""Functions that passes over graphs call for every argument, with a short way for the usual kinds.

- `tree_map` describes a tree's structure to map its leaves (`torch/utils/_pytree.py`).
- Each argument of a new node goes through four functions called `create_arg`, which look for modules, parameters and
  opaque objects first (`executorch/exir/pass_base.py`, `torch/fx`).
- A program's signature lists its parameters anew each time that one of them is asked for
  (`torch/export/graph_signature.py`).
- Every node that a pass writes copies the history of its source, which is never changed (`torch/fx/traceback.py`,
  NodeSource).
- Every decomposition of a program collects the operators of each namespace that C++ decomposes.
  For each of some 40 namespaces it looks up all of C++'s operators, so that `torch.ops` has them
  (`torch/_export/utils.py`, _materialize_cpp_cia_ops).
  Here that is done if C++ has others than the last time.

Source of the facts: torch 2.13, executorch 1.5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from executorch.exir import pass_base
from torch._export import utils as export_utils
from torch._subclasses import fake_tensor
from torch.export.graph_signature import ExportGraphSignature, InputKind, TensorArgument
from torch.fx.experimental.proxy_tensor import PythonKeyTracer
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.proxy import _create_arg_bypass
from torch.fx.traceback import NodeSource
from torch.utils import _pytree as pytree

#: Types whose values tracers look at more closely, as constants of a module or symbols.
_LONG = (torch.Tensor, torch.SymInt, torch.SymBool, torch.SymFloat)

_tree_map = pytree.tree_map
_materialize = export_utils._materialize_cpp_cia_ops

#: What makes an argument of a value, by the value's type, where no tracer looks for more in it.
_ARGUMENTS = {t: make for t, make in _create_arg_bypass.items() if t not in _LONG}
#: Properties of a signature, and the inputs that each has.
_PROPERTIES = {
    "inputs_to_parameters": InputKind.PARAMETER,
    "inputs_to_buffers": InputKind.BUFFER,
    "inputs_to_lifted_tensor_constants": InputKind.CONSTANT_TENSOR,
}


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yields objects, names of their attributes and quicker functions that return the same."""
    yield pytree, "tree_map", _mapped_tree
    yield fake_tensor, "tree_map", _mapped_tree
    for tracer in (PythonKeyTracer, pass_base.ExportPass.ExportTracer):
        yield tracer, "create_arg", _arguments(tracer.create_arg)
    for name, kind in _PROPERTIES.items():
        yield ExportGraphSignature, name, _inputs(kind)
    yield NodeSource, "__deepcopy__", lambda source, memo: source
    yield export_utils, "_materialize_cpp_cia_ops", _materializing()


def _mapped_tree(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Returns a tree with `func` of each leaf."""
    if rests or is_leaf is not None:
        return _tree_map(func, tree, *rests, is_leaf=is_leaf)
    return _mapped(func, tree)


def _mapped(func: Callable[..., Any], tree: Any) -> Any:
    kind = type(tree)
    if kind is tuple:
        return tuple([_mapped(func, t) for t in tree])
    if kind is list:
        return [_mapped(func, t) for t in tree]
    if kind is immutable_list:
        return immutable_list([_mapped(func, t) for t in tree])
    if kind is dict or kind is immutable_dict:
        made = {k: _mapped(func, t) for k, t in tree.items()}
        return made if kind is dict else immutable_dict(made)
    return func(tree) if pytree.tree_is_leaf(tree) else _tree_map(func, tree)


def _arguments(create: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a tracer's `create_arg`."""

    def create_arg(tracer: Any, value: Any) -> Any:
        make = _ARGUMENTS.get(type(value))
        return create(tracer, value) if make is None else make(tracer, value)

    return create_arg


def _inputs(kind: InputKind) -> property:
    """Returns the property of a signature that has the targets of one kind of inputs by name."""

    def inputs(signature: ExportGraphSignature) -> Mapping[str, str]:
        return MappingProxyType(
            {
                s.arg.name: s.target
                for s in signature.input_specs
                if s.kind is kind and isinstance(s.arg, TensorArgument) and isinstance(s.target, str)
            }
        )

    return property(inputs)


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
