"""Memories and formats of a graph's tensors, by the choices of Vela 5.

A format is rows (NHWC) or bricks of 16 channels (NHCWB16).
"""

from __future__ import annotations

from collections.abc import Set

from cost_models.fusion import ACTIVATIONS
from cost_models.machine import Memory, Place, machine_of
from cost_models.unit_graph import UnitGraph
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Shape

#: Channels of a brick.
_BRICK = 16


class Placement:
    """The tensors of one graph.

    absorbed: ops that are fused into their producer or reader, so that the tensors between are not stored.
    """

    def __init__(self, graph: UnitGraph, absorbed: Set[int], target: Target):
        self.graph, self.absorbed, self.machine = graph, absorbed, machine_of(target)
        self._rows: dict[int, bool] = {}

    def place(self, n: int) -> Place:
        """Returns where op `n` reads and writes."""
        sources = [s for i in self.graph.inputs(n) if self.graph.op(s := self.source(i)) != "const"]
        outer = [s for s in sources if self._memory(s) == self.machine.outer]
        read = self._memory((outer or sources or [n])[0])
        result = self.result(n)
        in_rows = self._in_rows(n) or self.graph.type(n).shape[-2:] == (1, 1)
        return Place(
            read, self._memory(result), in_rows or any(self.rows(s) for s in sources), in_rows or self.rows(result)
        )

    def source(self, n: int) -> int:
        """Returns the op or input that stores the values of `n`.

        It is found upwards through views, slices and fused ops.
        """
        while self.graph.is_unit(n) and (n in self.absorbed or self.graph.is_unit(n, "slice") or self._is_view(n)):
            n = self.graph.inputs(n)[0]
        return n

    def result(self, n: int) -> int:
        """Returns the last of the ops that are fused into `n`, or `n` itself."""
        while (reader := self.graph.single_reader(n)) in self.absorbed and self.graph.inputs(reader)[0] == n:
            n = reader
        return n

    def narrows(self, n: int) -> bool:
        """Whether the result of `n` is stored in less than 32 bits."""
        return not DType.of(self.graph.type(self.result(n)).dtype).is_wide

    def rows(self, n: int) -> bool:
        """Whether the tensor that `n` stores is in rows.

        Graph inputs and outputs are, and tensors next to ops that need rows or change shapes.
        """
        n = self.source(n)
        if n not in self._rows:
            self._rows[n] = self._find_rows(n)
        return self._rows[n]

    def _find_rows(self, n: int) -> bool:
        if self.graph.op(n) in ("input", "const") or self._in_rows(n) or self._is_output(n):
            return True
        stored = [self.result(n)]
        for reader in (reader for s in stored for reader in self.graph.readers[s]):
            if reader in self.absorbed and self.graph.is_unit(reader, "rescale", *ACTIVATIONS):
                stored.append(reader)
            elif self.graph.is_unit(reader) and (self._in_rows(reader) or self._reshapes(reader) or self._cuts(reader)):
                return True
        return False

    def _memory(self, n: int) -> Memory:
        """Returns the memory of a tensor: `outer` for inputs, outputs and what is larger than the cache."""
        outside = self.graph.op(n) == "input" or self._is_output(n) or self.graph.type(n).bytes > self.machine.cache
        return self.machine.outer if outside else self.machine.activations

    def _is_output(self, n: int) -> bool:
        """Whether `n` is stored as an output, or as that of a chain of views of it with one reader each."""
        n = self.result(n)
        while self.graph.is_unit(reader := self.graph.single_reader(n)) and self._is_view(reader):
            n = self.result(reader)
        return n in self.graph.outputs

    def _is_view(self, n: int) -> bool:
        """Whether it is a RESHAPE, or a TRANSPOSE that moves only unit axes."""
        unit = self.graph.units[n]
        if unit.op == "transpose":
            moved = [p for p in unit.attr("perms") if unit.operands[0].shape[p] > 1]
            return moved == sorted(moved)
        return unit.op == "reshape"

    def _in_rows(self, n: int) -> bool:
        """Whether Vela makes an op read and write rows."""
        return self.graph.is_unit(n, "matmul") or (
            self.graph.is_unit(n, "transpose") and not self.machine.family.transposes.pooled
        )

    def _reshapes(self, n: int) -> bool:
        """Whether it is a RESHAPE of the last two axes, or a convolution whose several batches become an area."""
        unit = self.graph.units[n]
        if unit.op == "conv2d":
            return unit.operands[0].shape[0] > 1
        return unit.op == "reshape" and _last_two(unit.operands[0].shape) != _last_two(unit.result.shape)

    def _cuts(self, n: int) -> bool:
        """Whether it is a concat or slice of channels that are not whole bricks."""
        unit = self.graph.units[n]
        if unit.op == "concat":
            by_channel = unit.attr("axis") == len(unit.result.shape) - 1
            return by_channel and any(t.shape[-1] % _BRICK for t in unit.operands[:-1])
        return unit.op == "slice" and unit.attr("start")[-1] % _BRICK != 0


def _last_two(shape: Shape) -> Shape:
    return (1, 1, *shape)[-2:]
