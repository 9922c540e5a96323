"""Discoveries as rules: for all operators and shapes that fit the left side, where a proof succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any

from benchmarks.discovery.convolutions import Window, trace
from benchmarks.discovery.find import Discovery
from benchmarks.discovery.readings import after, shortest
from eqsat.egraph.kinds import MOVE, Call, Constant, Kind, LeafValue, Value, kind_of, op
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import let, symbols
from eqsat.egraph.tree import Extern
from eqsat.proof import PROVED, Prover
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import GraphError, Type

#: An operator's name and the names of its operands.
#: The operator is "move" for TRANSPOSE and RESHAPE.
#: The operands are "x0" for an input, "k0" for a constant, "f0" for an operator's result.
Line = tuple[str, ...]
#: Seconds of processor time for the proof of one instance.
SECONDS = 20.0


@dataclass(slots=True)
class Form:
    """A graph as lines, one per operator.

    attributes: of each line, a Call or a Move.
    constants: numbers of the constant nodes.
    """

    lines: list[Line] = field(default_factory=list)
    attributes: list[Any] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)


def form_of(graph: TensorGraph, merged: bool = False) -> Form:
    """Returns the form of a graph.

    merged: whether a movement and its only reader, if that is one too, become one line.
    """
    names, out, readers = {i: f"x{k}" for k, i in enumerate(graph.inputs)}, Form(), graph.readers()
    for n in graph.live():
        node, attribute, last = graph.nodes[n], None, f"f{len(out.lines) - 1}"
        operands = [names[i] for i in node.inputs]
        if node.op == "const":
            names[n] = f"k{len(out.constants)}"
            out.constants.append(n)
        elif OPS[node.op].kind == "move":
            (x,) = node.inputs
            attribute = _move(graph, n)
            follows = merged and operands == [last] and out.lines[-1][0] == "move" and len(readers[x]) == 1
            if follows and (both := out.attributes[-1].then(attribute)) is not None:
                out.attributes[-1], attribute, names[n] = both, None, last
        elif node.op != "input":
            attribute = Call(node.op, node.attrs)
        if attribute is not None:
            names[n] = f"f{len(out.lines)}"
            out.lines.append(("move" if isinstance(attribute, Move) else node.op, *operands))
            out.attributes.append(attribute)
    return out


def _move(graph: TensorGraph, n: int) -> Move:
    node, shape = graph.nodes[n], graph.nodes[graph.nodes[n].inputs[0]].shape
    return Move.transpose(shape, node.attr("perms")) if node.op == "transpose" else Move.reshape(shape, node.shape)


@dataclass(frozen=True, slots=True)
class Equality:
    """An equality left = right, valid if the recipe makes the right side and a proof succeeds.

    left, right: lines as `form_of` gives them; movements of the right side are merged.
    """

    left: tuple[Line, ...]
    right: tuple[Line, ...]
    recipe: Window

    @staticmethod
    def of(left: TensorGraph, right: TensorGraph, recipe: Window) -> Equality:
        """Returns the equality of two graphs, of which a recipe makes the right one."""
        return Equality(tuple(form_of(left).lines), tuple(form_of(right, merged=True).lines), recipe)

    def rule(self, name: str) -> Rule:
        """Returns the equality as a rule, in which a function of this name gives what its right side is made of."""
        kinds = [_kinds(lines) for lines in (self.left, self.right)]
        given = {f"f{k}": symbols(f"f{k}", kind) for k, kind in enumerate(kinds[0])}
        given |= {x: symbols(x, Value) for x in _leaves(self.left, "x")}
        given |= {k: symbols(k, Constant) for k in _leaves(self.left, "k")}
        inputs, constants = len(kinds[0]), len(given) - len(_leaves(self.left, "k"))

        def right(*of: Any) -> tuple[Any, ...] | None:
            return self.instance(of[:inputs], of[inputs:constants], of[constants:])

        of_right = [f"f{k}" for k in range(len(kinds[1]))] + _leaves(self.right, "k")
        results = (*kinds[1], *[kind_of(Constant)] * (len(of_right) - len(kinds[1])))
        types = {"x": kind_of(Type), "k": kind_of(Constant)}
        parameters = (*kinds[0], *(types[n[0]] for n in list(given)[inputs:]))
        call = Extern(name, right, parameters, None, results, None, False)(*given.values())
        made = let(call, lambda *g: _term(self.right, {**given, **dict(zip(of_right, g, strict=True))}))
        return rule(name, _term(self.left, given), made)

    def instance(
        self, operators: Sequence[Any], inputs: Sequence[Type], constants: Sequence[LeafValue]
    ) -> tuple[Any, ...] | None:
        """Returns the operators and then the constants of the right side.

        operators: those of the left side's lines.
        inputs, constants: of the left side.
        Returns None if the recipe does not apply, gives another form, or is not proved.
        """
        try:
            graph = self._graph(operators, inputs, constants)
            made = self.recipe.follow(trace(graph))
        except (GraphError, ValueError):
            return None
        if made is None or tuple((form := form_of(made, merged=True)).lines) != self.right:
            return None
        if Prover(graph, seconds=SECONDS).prove(made, search=False).verdict != PROVED:
            return None
        return (*form.attributes, *(LeafValue(made.nodes[n]) for n in form.constants))

    def _graph(self, operators: Sequence[Any], inputs: Sequence[Type], constants: Sequence[LeafValue]) -> TensorGraph:
        """Returns the left side as a graph. Raises GraphError or ValueError if parts do not fit."""
        g = TensorGraph(output_names=["y"])
        number = {f"x{k}": g.add_input(f"x{k}", t.shape, t.dtype) for k, t in enumerate(inputs)}
        for k, leaf in enumerate(constants):
            number[f"k{k}"] = g.add_const(leaf.data, leaf.node.dtype)
        for k, (line, given) in enumerate(zip(self.left, operators, strict=True)):
            operands = [number[name] for name in line[1:]]
            if isinstance(given, Move):
                if g.nodes[operands[0]].shape != given.in_shape:
                    raise GraphError("a movement of another shape")
                number[f"f{k}"] = after(g, operands[0], shortest(given))
            else:
                number[f"f{k}"] = g.add_with(given.op, operands, given.attrs)
        g.outputs.append(number[f"f{len(self.left) - 1}"])
        return g


def _kinds(lines: Sequence[Line]) -> list[Kind]:
    return [MOVE if name == "move" else op(name) for name, *_ in lines]


def _leaves(lines: Sequence[Line], which: str) -> list[str]:
    """Returns the names of the inputs ("x") or constants ("k") of a form, in the order of their numbers."""
    found = {name for _, *operands in lines for name in operands if name[0] == which}
    return [f"{which}{k}" for k in range(len(found))]


def _term(lines: Sequence[Line], known: dict[str, Any]) -> Any:
    """Returns the term of a form. known: operators ("f0") and leaves, by their names."""
    made = {name: term for name, term in known.items() if name[0] != "f"}
    for k, (name, *operands) in enumerate(lines):
        given = [made[o] for o in operands]
        made[f"f{k}"] = known[f"f{k}"](*([given] if name == "concat" else given))
    return made[f"f{len(lines) - 1}"]


def module(found: Discovery, name: str, source: str) -> str:
    """Returns the text of NAME.py, beside which NAME.tosa holds the neighbourhood.

    source: name of the graph's file, for people.
    """
    equality = Equality.of(found.neighbourhood.graph, found.graph, found.recipe)
    nodes, statement = ", ".join(map(str, found.neighbourhood.nodes)), equality.rule(name).statement
    told = {"nodes": nodes, "statement": statement, "equality": pformat(equality, width=110)}
    return Path(__file__).with_name("rule.py.in").read_text().format(name=name, source=source, found=found, **told)
