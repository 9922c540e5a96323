"""S-expressions, in which egglog's rules are written."""

from __future__ import annotations

import re
from typing import Any

#: A call: its head and its arguments, which are calls and words.
Form = tuple[Any, ...]
Expr = str | Form


def parse(source: str) -> list[Form]:
    """The calls that a text consists of."""
    stack: list[list[Any]] = [[]]
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
