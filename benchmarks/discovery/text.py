"""Discoveries as Python files for `eqsat check-rules`: a typed rule, its origin, and a test."""

from __future__ import annotations

from pathlib import Path
from pprint import pformat
from typing import Any

from benchmarks.discovery.equality import Equality, Form, form_of
from benchmarks.discovery.find import Discovery


def module(found: Discovery, name: str, source: str) -> str:
    """Returns the text of NAME.py, beside which NAME.tosa holds the neighbourhood.

    source: name of the graph's file, for people.
    """
    graph = found.neighbourhood.graph
    equality = Equality.of(graph, found.graph, found.recipe)
    left, right = form_of(graph), form_of(found.graph, merged=True)
    given = [
        *((f"f{k}", kind) for k, kind in enumerate(_kinds(left))),
        *((f"x{k}", "Type") for k in range(len(graph.inputs))),
        *((f"k{k}", "Constant") for k in range(len(left.constants))),
    ]
    results = [*_kinds(right), *["Constant"] * len(right.constants)]
    names = [*(f"g{k}" for k in range(len(right.lines))), *(f"l{k}" for k in range(len(right.constants)))]
    call = f"right({', '.join(n for n, _ in given)})"
    template = Path(__file__).with_name("rule.py.in").read_text()
    return template.format(
        name=name,
        source=source,
        found=found,
        nodes=", ".join(map(str, found.neighbourhood.nodes)),
        kinds="\n".join(sorted(_declarations(left) | _declarations(right))),
        equality=pformat(equality, width=110),
        parameters=", ".join(f"{n}: {kind}" for n, kind in given),
        results=f"tuple[{', '.join(results)}]",
        operators=", ".join(f"f{k}" for k in range(len(left.lines))),
        inputs=", ".join(f"x{k}" for k in range(len(graph.inputs))),
        constants=", ".join(f"k{k}" for k in range(len(left.constants))),
        symbols="\n".join(f'{n} = symbols("{n}", {"Value" if kind == "Type" else kind})' for n, kind in given),
        left=_term(left, "f", "k"),
        right=f"let({call}, lambda {', '.join(names)}: {_term(right, 'g', 'l')})",
    )


def _kinds(form: Form) -> list[str]:
    """Returns the name of the kind of each line's operator."""
    return [_kind(line[0], a) for line, a in zip(form.lines, form.attributes, strict=True)]


def _kind(op: str, attribute: Any) -> str:
    return "Move" if op == "move" else op.title().replace("_", "")


def _declarations(form: Form) -> set[str]:
    """Returns the declarations of all kinds but Move, which is imported."""
    out = set()
    for (op, *_), kind in zip(form.lines, _kinds(form), strict=True):
        out |= {f'{kind} = Annotated[Call, op("{op}")]'} if op != "move" else set()
    return out


def _term(form: Form, operators: str, leaves: str) -> str:
    def of(name: str) -> str:
        if name[0] != "f":
            return leaves + name[1:] if name[0] == "k" else name
        op, *operands = form.lines[int(name[1:])]
        inside = ", ".join(map(of, operands))
        return f"{operators}{name[1:]}({f'[{inside}]' if op == 'concat' else inside})"

    return of(f"f{len(form.lines) - 1}")
