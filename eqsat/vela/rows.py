"""A MATMUL and its RESCALE in TOSA, row by row of the left operand.

If the NPU has no MATMUL, Vela makes a MUL and a REDUCE_SUM for each column. The products are INT32, and on U65 they
wait in DRAM.
Here each row is multiplied by all columns. The products wait in SRAM as INT16, and those of several rows are summed at
once. With x, y INT8, a product (x - p) (y - q) may be up to 255 * 255. If that is too much for INT16, another zero
point p' takes the place of p, and (p' - p) times the sum of (y - q) is added to the sums.

    x [n, rows, c], y [n, columns, c]:
    for each row            products = (x[:, row] - p') (y - q)       [n, columns, c]
    for `step` rows         sums = the sum of products over c         [step * n, columns, 1]
    all of them in a row    + (p' - p) * the sum of y - q over c      where p' is not p
                            rescaled to INT8                          [rows, n, columns]

Each part is written at its place in the CONCAT.
If nothing is added, each part is rescaled before, which Vela fuses into the sum.
It fuses none into an ADD, so otherwise the RESCALE follows the CONCAT (`concat_of_a_wide_rescale` in `defects.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, DType, attrs_of

#: The dtype of the products.
_PRODUCT = "INT16"


def write(graph: TensorGraph, op: str, operands: Sequence[int], attrs: Attrs) -> int:
    """Adds an operator, "matmul_rows" as several TOSA operators, to a graph and returns the node of its result."""
    if op != "matmul_rows":
        return graph.add_with(op, operands, attrs)
    x, y = operands
    return _Rows(graph, x, y, attrs).write()


def fitting_zero_point(zero_point: int, other: int) -> int:
    """Returns the zero point nearest to `zero_point` with which all products fit in INT16.

    other: the zero point of the other factor; both factors are INT8.
    """
    low, high = DType.of("INT8").limits
    most = DType.of(_PRODUCT).limits[1] // max(high - other, other - low)
    return min(max(zero_point, high - most), low + most)


class _Rows:
    """A MATMUL under construction; `zp` is the zero point of the left operand that is used."""

    def __init__(self, graph: TensorGraph, x: int, y: int, attrs: Attrs):
        self.graph, self.x, self.y = graph, x, y
        values = dict(attrs)
        (self.x_zp,), (self.y_zp,), self.step = values["in_zp"], values.pop("w_zp"), values.pop("step")
        self.scale = attrs_of({**values, "in_zp": (0,)})
        self.zp = fitting_zero_point(self.x_zp, self.y_zp)
        self.n, self.rows, self.c = graph.nodes[x].shape
        self.columns = graph.nodes[y].shape[1]

    def write(self) -> int:
        graph, corrected = self.graph, self.zp != self.x_zp
        parts = [self._sums(k, min(self.step, self.rows - k)) for k in range(0, self.rows, self.step)]
        if not corrected:
            parts = [graph.add_with("rescale", [sums], self.scale) for sums in parts]
        whole = graph.add("concat", parts, axis=0) if len(parts) > 1 else parts[0]
        if corrected:
            whole = self._view(whole, (1, self.rows, self.n * self.columns))
            whole = graph.add_with("rescale", [graph.add("add", [whole, self._correction()])], self.scale)
        return self._view(whole, (self.rows, self.n, self.columns))

    def _sums(self, first: int, count: int) -> int:
        """Adds the sums of `count` rows: [count * n, columns, 1], INT32."""
        graph = self.graph
        products = [self._products(row) for row in range(first, first + count)]
        joined = graph.add("concat", products, axis=0) if count > 1 else products[0]
        return graph.add("reduce_sum", [graph.add_with("rescale", [joined], makers.rescale("INT32"))], axis=2)

    def _products(self, row: int) -> int:
        """Adds the products of one row: [n, columns, c], INT16."""
        graph = self.graph
        one = graph.add("slice", [self.x], start=(0, row, 0), size=(self.n, 1, self.c)) if self.rows > 1 else self.x
        product = graph.add_with("mul", [self._wide(one, self.zp), self._wide(self.y, self.y_zp)], makers.mul())
        return graph.add_with("rescale", [product], makers.rescale(_PRODUCT))

    def _correction(self) -> int:
        """Adds what another zero point leaves out of every row's sums: [1, 1, n * columns], INT32."""
        graph = self.graph
        sums = graph.add("reduce_sum", [self._wide(self.y, self.y_zp)], axis=2)
        factor = graph.add_const(np.full((1, 1, 1), self.zp - self.x_zp), "INT32")
        return self._view(graph.add_with("mul", [sums, factor], makers.mul()), (1, 1, self.n * self.columns))

    def _wide(self, x: int, zero_point: int) -> int:
        """Adds `x` less its zero point, in INT32, for one reader: a RESCALE that fuses must not be shared."""
        return self.graph.add_with("rescale", [x], makers.rescale("INT32", in_zp=zero_point))

    def _view(self, x: int, shape: tuple[int, ...]) -> int:
        return x if self.graph.nodes[x].shape == shape else self.graph.add("reshape", [x], shape=shape)
