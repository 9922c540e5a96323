"""S-expressions, in which egglog's rules are written."""

from __future__ import annotations

import re

Expr = str | tuple


def parse(source: str) -> list[Expr]:
    """The s-expressions of a text: tuples of tuples and words."""
    stack: list[list[Expr]] = [[]]
    for token in re.findall(r'[()]|"[^"]*"|[^\s()]+', source):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0]


def text(e: Expr) -> str:
    return e if isinstance(e, str) else f"({' '.join(map(text, e))})"
