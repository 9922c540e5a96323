"""A rule of your own in ten lines: two channel reversals in a row cancel, also across anything that works on single values.

eqsat check-rules examples/custom_rule.py
eqsat optimize in.tosa -t ethos-u85-256 -o out.tosa --user-rules examples/custom_rule.py
"""

from eqsat import Extern, Rule

EXTERNS = [
    Extern("same_reverse", 2, 0, lambda f, g: () if f.op == g.op == "reverse" and f.attrs == g.attrs else None),
    Extern("is_reverse", 1, 0, lambda f: () if f.op == "reverse" else None),
]
RULES = [
    Rule(
        "reverse-reverse",
        "mine",
        "reverse (reverse x) = x, along the same axis",
        ("(= t (Ax f (Ax g x)))",),
        ("(union t x)",),
        (("", "same_reverse", "f g"),),
    ),
    Rule(
        "reverse-unary",
        "mine",
        "reverse (f x) = f (reverse x)",
        ("(= t (Ax f (P1 g x)))",),
        ("(union t (P1 g (Ax f x)))",),
        (("", "is_reverse", "f"),),
    ),
]
