"""A lowering without what PyTorch does around ExecuTorch's passes for readers that there are none of: the same program
in about 40% less time.

- Every node that a pass writes copies the history of the node before it (`torch/fx/traceback.py`, NodeSource).
  Histories are not changed once they are written, so nodes can share them.
- Every pass has the Python code of its graph written and compiled (`torch/fx/graph_module.py`, GraphModule.recompile),
  though passes interpret graphs. Here that is done where the code is read, and for the graphs that are left at the end.
- The garbage collector walks again and again through all of PyTorch, which is no garbage.

`benchmarks/whole_job.py` shows what that is worth. Source of the facts: torch 2.13.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.traceback import NodeSource

#: Objects made between two looks for garbage. Python's default is 700; the peak of memory is the same with both.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000

_recompile = GraphModule.recompile
_reduce = GraphModule.__reduce__


@contextmanager
def less_bookkeeping() -> Iterator[None]:
    """Graphs, their metadata and the .pte are the same with and without it. One at a time in a process; within another
    it does nothing."""
    if "__deepcopy__" in vars(NodeSource):
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_rare_collections())
        stack.enter_context(patch.object(NodeSource, "__deepcopy__", lambda source, memo: source, create=True))
        noted: weakref.WeakSet[GraphModule] = weakref.WeakSet()
        stack.callback(_compile, noted)
        stack.enter_context(patch.object(GraphModule, "recompile", _noting(noted)))
        stack.enter_context(patch.object(GraphModule, "__reduce__", _pickled))
        stack.enter_context(patch.object(GraphModule, "_code", _UnreadText(), create=True))
        yield


@contextmanager
def _rare_collections() -> Iterator[None]:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    if before[0]:  # 0: somebody has switched it off
        gc.set_threshold(max(before[0], _OBJECTS_BETWEEN_COLLECTIONS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


class _Unread:
    """`forward` of a graph module, compiled once it is read. Every graph module has a class of its own, whose attribute
    this is."""

    def __init__(self, module: GraphModule) -> None:
        self.module = weakref.ref(module)

    def __get__(self, instance: GraphModule | None, owner: type[GraphModule]) -> Any:
        if (module := instance if instance is not None else self.module()) is None:
            raise AttributeError("the graph module of this class is gone")
        _recompile(module)  # puts the function into the place of this
        return module.forward if instance is not None else owner.forward


class _UnreadText:
    """The text of a graph module's code where the module has none of its own yet."""

    def __get__(self, instance: GraphModule, owner: type[GraphModule]) -> Any:
        _recompile(instance)
        return vars(instance)["_code"]


class _UnreadCode:
    """What `recompile` returns: the Python code, written once something of it is read."""

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
    """Those of them that were not read yet. A graph that has no code, which nobody asked for, is left as it is."""
    for module in list(modules):
        if isinstance(vars(type(module)).get("forward"), _Unread):
            with suppress(Exception):
                _recompile(module)
