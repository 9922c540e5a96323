"""Graph modules whose Python code is written and compiled when it is first read.

`GraphModule.recompile` (`torch/fx/graph_module.py`) does so after every pass, though passes interpret graphs.
Source of the facts: torch 2.13.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen

_recompile = GraphModule.recompile
#: Attributes of a module that `recompile` sets.
_TEXTS = ("_code", "_lineno_map", "_prologue_start")


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yields the class of graph modules, the name of its method and one that leaves the code unread."""
    yield GraphModule, "recompile", _leave_unread


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
    own.forward, own.__reduce__ = _UnreadFunction(module), _pickled
    module._recompile_submodules()
    return _UnreadCode(module)


def _pickled(module: GraphModule) -> Any:
    """Returns what `pickle` asks for, which has the code; a class of the caller's may have its own way."""
    if isinstance(vars(type(module)).get("forward"), _UnreadFunction):
        _recompile(module)
    return super(type(module), module).__reduce__()
