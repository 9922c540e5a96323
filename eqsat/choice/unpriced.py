"""The reason why an e-graph has no extraction: operators without a price in any form."""

from __future__ import annotations

import math

from eqsat.choice.choice import Choices


def unpriced(choices: Choices) -> list[str]:
    """Returns the source's operators for which Vela or a guard refuses
    every e-node of their e-class.

    They are texts such as "CONV2D of INT16 (1, 8, 8, 3) to INT48 (1, 8, 8, 16)".
    They are in the source's order, and each one occurs once.
    """
    source, frozen = choices.frozen.source, choices.frozen
    cheapest: dict[int, float] = {}
    for c in choices.candidates:
        cheapest[c.enode.cls] = min(c.cycles, cheapest.get(c.enode.cls, math.inf))
    found: dict[str, None] = {}
    for n in source.live():
        node = source.nodes[n]
        if node.inputs and math.isinf(cheapest.get(frozen.handle[n], 0.0)):
            operand = source.nodes[node.inputs[0]]
            found[f"{node.op.upper()} of {operand.dtype} {operand.shape} to {node.dtype} {node.shape}"] = None
    return list(found)
