"""A discovered equality as a rule for all operators and shapes that fit its left side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.discovery.readings import move_of, moved
from benchmarks.discovery.recipes import Source, Window, followed
from eqsat.egraph.attributes import Call, LeafValue
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

    def add(self, op: str, attribute: Any, *operands: str) -> str:
        """Adds a line and returns the name of its result."""
        self.lines.append((op, *operands))
        self.attributes.append(attribute)
        return f"f{len(self.lines) - 1}"

    def moved(self, x: str, move: Move) -> bool:
        """Merges a movement into the last line, if `x` is its result and it is a movement too.

        Returns whether that was possible.
        """
        if x != f"f{len(self.lines) - 1}" or self.lines[-1][0] != "move":
            return False
        composed = self.attributes[-1].then(move)
        if composed is not None:
            self.attributes[-1] = composed
        return composed is not None


def form_of(graph: TensorGraph, merged: bool = False) -> Form:
    """Returns the form of a graph.

    merged: whether consecutive movements become one line.
    """
    names, out, readers = {i: f"x{k}" for k, i in enumerate(graph.inputs)}, Form(), graph.readers()
    for n in graph.live():
        node = graph.nodes[n]
        if node.op == "const":
            names[n] = f"k{len(out.constants)}"
            out.constants.append(n)
        elif OPS[node.op].kind == "move":
            (x,) = node.inputs
            move = move_of(graph, n)
            alone = merged and len(readers[x]) == 1
            names[n] = names[x] if alone and out.moved(names[x], move) else out.add("move", move, names[x])
        elif node.op != "input":
            names[n] = out.add(node.op, Call(node.op, node.attrs), *(names[i] for i in node.inputs))
    return out


def proved(graph: TensorGraph, other: TensorGraph) -> bool:
    """Tells whether two graphs are proved equal within `SECONDS`."""
    return Prover(graph, seconds=SECONDS).prove(other, search=False).verdict == PROVED


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
        except (GraphError, ValueError):
            return None
        made = followed(self.recipe, Source(graph))
        if made is None:
            return None
        form = form_of(made, merged=True)
        if tuple(form.lines) != self.right or not proved(graph, made):
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
                number[f"f{k}"] = moved(g, operands[0], given)
            else:
                number[f"f{k}"] = g.add_with(given.op, operands, given.attrs)
        g.outputs.append(number[f"f{len(self.left) - 1}"])
        return g
