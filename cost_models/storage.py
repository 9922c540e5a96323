"""Where a graph's tensors live and in which format, as Vela 5.1 chooses: rows (NHWC) or bricks of 16 channels (NHCWB16)."""

from __future__ import annotations

from collections.abc import Set

from cost_models.machine import Memory, Place, machine
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph


class Storage:
    """The tensors of one graph. absorbed: ops that are fused into their producer or reader, so that what they read is not stored."""

    def __init__(
        self,
        graph: TensorGraph,
        units: dict[int, Unit],
        readers: dict[int, list[int]],
        absorbed: Set[int],
        target: Target,
    ):
        self.graph, self.units, self.readers, self.absorbed = graph, units, readers, absorbed
        self.machine, self.outputs = machine(target), set(graph.outputs)
        self._rows: dict[int, bool] = {}

    def place(self, n: int) -> Place:
        sources = [s for i in self.graph.nodes[n].inputs if self.graph.nodes[s := self.source(i)].op != "const"]
        slow = [s for s in sources if self._memory(s) == self.machine.outer]
        read = self._memory((slow or sources or [n])[0])
        result = self.result(n)
        own_rows = self._own(n) or self.graph.type(n).shape[-2:] == (1, 1)
        return Place(
            read, self._memory(result), own_rows or any(self.rows(s) for s in sources), own_rows or self.rows(result)
        )

    def source(self, n: int) -> int:
        """The op or input that stores what `n` shows: behind views, and RESCALEs that fuse."""
        while n in self.units and (n in self.absorbed or self.units[n].op == "slice" or self._view(n)):
            n = self.graph.nodes[n].inputs[0]
        return n

    def result(self, n: int) -> int:
        """The last of the ops that are fused into `n`."""
        while (
            len(self.readers[n]) == 1
            and (r := self.readers[n][0]) in self.absorbed
            and self.graph.nodes[r].inputs[0] == n
            and n not in self.outputs
        ):
            n = r
        return n

    def narrows(self, n: int) -> bool:
        return self.graph.nodes[self.result(n)].dtype != "INT32"

    def _memory(self, n: int) -> Memory:
        """Graph inputs and outputs, and what the cache has no room for, are outside of it."""
        t = self.graph.type(n)
        outside = (
            self.graph.nodes[n].op == "input"
            or self._shown(n)
            or t.elements * DType.of(t.dtype).size > self.machine.cache
        )
        return self.machine.outer if outside else self.machine.activations

    def _shown(self, n: int) -> bool:
        """Whether `n` is stored as an output of the graph, or of a view of it that only one op reads."""
        n = self.result(n)
        while (
            n not in self.outputs
            and len(self.readers[n]) == 1
            and (r := self.readers[n][0]) in self.units
            and self._view(r)
        ):
            n = self.result(r)
        return n in self.outputs

    def _view(self, r: int) -> bool:
        """A RESHAPE, or a TRANSPOSE of single elements."""
        u = self.units[r]
        if u.op == "transpose":
            moved = [p for p in u.attr("perms") if u.operands[0].shape[p] > 1]
            return moved == sorted(moved)
        return u.op == "reshape"

    def _own(self, n: int) -> bool:
        """Ops that Vela gives rows to read and write."""
        op = self.units[n].op if n in self.units else ""
        return op == "matmul" or op == "transpose" and not self.machine.family.transposes.pooled

    def rows(self, n: int) -> bool:
        """Whether the tensor that `n` stores is in rows: graph inputs and outputs, and neighbours of ops that need or show other shapes."""
        n = self.source(n)
        if n not in self._rows:
            self._rows[n] = self._find_rows(n)
        return self._rows[n]

    def _find_rows(self, n: int) -> bool:
        if self.graph.nodes[n].op in ("input", "const") or self._own(n) or self._shown(n):
            return True
        behind = [self.result(n)]
        for r in (r for b in behind for r in self.readers[b]):
            if r in self.absorbed and r in self.units and self.units[r].op in ("rescale", "clamp", "table"):
                behind.append(r)
            elif r in self.units and (self._own(r) or self._reshapes(r) or self._cuts(r)):
                return True
        return False

    def _reshapes(self, r: int) -> bool:
        u = self.units[r]
        if u.op == "conv2d":
            return u.operands[0].shape[0] > 1  # batches become an area
        return u.op == "reshape" and _last(u.operands[0].shape) != _last(u.result.shape)

    def _cuts(self, r: int) -> bool:
        """A concat or slice of channels that is not of whole bricks."""
        u = self.units[r]
        if u.op == "concat":
            return u.attr("axis") == len(u.result.shape) - 1 and any(t.shape[-1] % 16 for t in u.operands[:-1])
        return u.op == "slice" and u.attr("start")[-1] % 16 != 0


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, 1, *shape)[-2:]
