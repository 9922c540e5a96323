"""Rules of your own: two channel reversals in a row cancel, also across anything that works on single values.

eqsat check-rules examples/custom_rule.py
eqsat optimize in.tosa -t ethos-u85-256 -o out.tosa --user-rules examples/custom_rule.py
"""

from typing import Annotated

from eqsat import Call, kinds, op, rule, symbols
from eqsat.tensor.graph import TensorGraph

reverse = symbols("reverse", Annotated[Call, op("reverse")])
f, x = symbols("f", kinds.Unary), symbols("x", kinds.Value)

RULES = [
    rule("reverse-reverse", reverse(reverse(x)), x),
    rule("reverse-unary", reverse(f(x)), f(reverse(x))),
]


def reversed_twice() -> TensorGraph:
    """A graph that the rules are made for: the check tries them on it, besides random ones."""
    g = TensorGraph()
    y = g.add_input("x", (1, 2, 2, 3), "INT8")
    for _ in range(2):
        y = g.add("abs", (g.add("reverse", (y,), axis=3),))
    g.outputs.append(y)
    return g


GRAPHS = [reversed_twice]
