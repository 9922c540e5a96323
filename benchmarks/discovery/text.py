"""Discoveries as Python files for `eqsat check-rules`: a typed rule, its origin, and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from pprint import pformat
from typing import Any

from benchmarks.discovery.equality import Equality, Form, form_of, proved
from benchmarks.discovery.find import Discovery
from benchmarks.discovery.near_misses import near_misses
from benchmarks.discovery.recipes import Source, followed
from eqsat.tensor.graph import TensorGraph

#: Near misses that are tried, at most.
_MOST = 24
#: Answers of an equality to a near miss.
HOLDS, UNPROVED, OTHER, SPARED = "proved", "made, but not proved equal", "made in another form", "not made"


@dataclass(frozen=True, slots=True)
class Trial:
    """A near miss.

    change: what was changed in the discovery's graph.
    answer: one of the four texts above.
    """

    change: str
    answer: str


def trials(found: Discovery) -> list[Trial]:
    """Returns where else the equality holds: for other sizes, scales, zero points and windows."""
    right = form_of(found.graph, merged=True).lines

    def answer(graph: TensorGraph) -> str:
        made = followed(found.recipe, Source(graph))
        if made is None:
            return SPARED
        if form_of(made, merged=True).lines != right:
            return OTHER
        return HOLDS if proved(graph, made) else UNPROVED

    return [Trial(change, answer(g)) for change, g in islice(near_misses(found.neighbourhood.graph), _MOST)]


def module(found: Discovery, name: str, source: str, tried: Sequence[Trial]) -> str:
    """Returns the text of NAME.py, beside which NAME.tosa holds the neighbourhood.

    source: name of the graph's file, for people.
    tried: the near misses.
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
    by_answer = {word: [t.change for t in tried if t.answer == word] for word in (HOLDS, UNPROVED, OTHER, SPARED)}
    template = Path(__file__).with_name("rule.py.in").read_text()
    return template.format(
        name=name,
        source=source,
        found=found,
        nodes=", ".join(map(str, found.neighbourhood.nodes)),
        trials="\n".join(f"{word}: {'; '.join(c) or 'nothing'}." for word, c in by_answer.items()),
        recipe_module=type(found.recipe).__module__,
        recipe_type=type(found.recipe).__name__,
        kinds="\n".join(sorted(_declarations(left) | _declarations(right))),
        equality=pformat(equality, width=110),
        parameters=", ".join(f"{n}: {kind}" for n, kind in given),
        results=f"tuple[{', '.join(results)}]" if len(results) > 1 else results[0] if results else "bool",
        operators=", ".join(f"f{k}" for k in range(len(left.lines))),
        inputs=", ".join(f"x{k}" for k in range(len(graph.inputs))),
        constants=", ".join(f"k{k}" for k in range(len(left.constants))),
        returned="made" if len(results) > 1 else "made[0]" if results else "True",
        symbols="\n".join(f'{n} = symbols("{n}", {"Value" if kind == "Type" else kind})' for n, kind in given),
        left=_term(left, "f", "k"),
        right=_right(call, right, names),
        spared=pformat(by_answer[SPARED], width=110),
    )


def _right(call: str, right: Form, names: Sequence[str]) -> str:
    """Returns what follows the left side in the call that makes the rule."""
    if not names:
        return f"x0, where={call}"
    if len(names) == 1:
        return _term(right, "g", "l").replace("g0(", f"{call}(", 1)
    return f"let({call}, lambda {', '.join(names)}: {_term(right, 'g', 'l')})"


def _kinds(form: Form) -> list[str]:
    """Returns the name of the kind of each line's operator."""
    return [_kind(line[0], a) for line, a in zip(form.lines, form.attributes, strict=True)]


def _kind(op: str, attribute: Any) -> str:
    channelwise = op == "rescale" and attribute.attr("per_channel")
    return "Move" if op == "move" else f"{'Channel' if channelwise else ''}{op.title().replace('_', '')}"


def _declarations(form: Form) -> set[str]:
    """Returns the declarations of all kinds but Move, which is imported."""
    out = set()
    for (op, *_), kind in zip(form.lines, _kinds(form), strict=True):
        more = ', name="channel_rescale", per_channel=True' if kind == "ChannelRescale" else ""
        out |= {f'{kind} = Annotated[Call, op("{op}"{more})]'} if op != "move" else set()
    return out


def _term(form: Form, operators: str, leaves: str) -> str:
    def of(name: str) -> str:
        if name[0] != "f":
            return leaves + name[1:] if name[0] == "k" else name
        op, *operands = form.lines[int(name[1:])]
        inside = ", ".join(map(of, operands))
        return f"{operators}{name[1:]}({f'[{inside}]' if op == 'concat' else inside})"

    return of(f"f{len(form.lines) - 1}") if form.lines else "x0"
