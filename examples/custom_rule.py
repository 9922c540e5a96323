"""Rules of your own: two channel reversals in a row cancel, also across anything that works on single values.

eqsat check-rules examples/custom_rule.py
eqsat optimize in.tosa -t ethos-u85-256 -o out.tosa --user-rules examples/custom_rule.py
"""

from typing import Annotated

from eqsat import Call, kinds, op, rule, symbols

reverse = symbols("reverse", Annotated[Call, op("reverse")])
f, x = symbols("f", kinds.Unary), symbols("x", kinds.Value)

RULES = [
    rule("reverse-reverse", reverse(reverse(x)), x),
    rule("reverse-unary", reverse(f(x)), f(reverse(x))),
]
