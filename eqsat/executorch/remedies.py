"""What to write in place of an operator of PyTorch that stays on the CPU.

The survey of operators (docs/operators.md) tried each: what is written instead runs on the NPU of every family.
"""

from __future__ import annotations

from torch.fx import Node

from eqsat.executorch.nodes import first_source

#: Remedies by the names of the operators in the exported program.
REMEDIES = {
    "addcmul": "write addcmul(x, y, z) as x + y * z",
    "index": "write x[:, [3, 1, 2]] as a cat of slices",
    "index_select": "write index_select as a cat of slices",
    "lerp": "write lerp(x, y, w) as x + (y - x) * w",
    "tril": "write tril as a product with a mask, x * torch.ones(h, w).tril()",
    "triu": "write triu as a product with a mask, x * torch.ones(h, w).triu()",
}


def remedy(node: Node) -> str:
    """Returns what to write in place of the operator that a node of a lowered program comes from, "" if unknown."""
    first = first_source(node)
    kind = str(node.target) if first is None else first.target
    return REMEDIES.get(kind.removeprefix("aten.").partition(".")[0], "")
