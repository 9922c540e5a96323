"""A run saturated again with its history recorded, and the rows of its choice in that history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.choice.choice import Choices
from eqsat.egraph.attributes import Call, LeafValue, constructor
from eqsat.egraph.encoding import ENode
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.rule import Rule
from eqsat.explain.chains import Chains, ExplainError
from eqsat.explain.record import FOREVER, TableRow, is_enode, record
from eqsat.options.spellings import for_target
from eqsat.rules.presets import PRESETS
from eqsat.search.run import Run
from eqsat.target import Target
from eqsat.tensor.graph import Node
from eqsat.tensor.movement import Move


def rules_of(names: Sequence[str], own: Sequence[Rule], target: Target) -> list[Rule]:
    """Returns the rules of these names for a target, in order.

    Raises ExplainError for an unknown name.
    """
    known = {r.name: r for rules in (*PRESETS.values(), own) for r in rules}
    missing = [n for n in names if n not in known]
    if missing:
        raise ExplainError(
            f"the run used rules that are not at hand: {', '.join(missing)}; give them (in Python: rules=)"
        )
    return for_target((known[n] for n in names), target)


class Replay:
    """A recorded history of a run, with the rows of the run's e-nodes in it.

    own: the user's own rules that took part.
    """

    def __init__(self, run: Run, own: Sequence[Rule]):
        done = run.choices.frozen.saturation.iterations
        # a recorded saturation is slower, and has to get at least as far as the run's
        budget = Budget(nodes=2 * max((i.nodes for i in done), default=1000), seconds=3600.0, passes=max(1, len(done)))
        try:
            h = self.history = record(run.source, rules_of(run.rules, own, run.target), budget)
        except EngineError as e:
            raise ExplainError(f"the saturation cannot be repeated: {e}") from e
        self.source = run.source
        self.chains = Chains(h)
        #: {node of the source: its class at loading}.
        self.loaded = {r[1][0]: r[2] for r in h.by_name["Node"] if h.life[r][0] == 0}
        self._first = {r[2]: r for r in h.life if is_enode(r[0]) and h.life[r][0] == 0}
        self._labels: dict[int, dict[int, int]] = {}

    def explicit(self, node: int) -> TableRow:
        """Returns the e-node of a node of the source graph, as loaded."""
        return self._first[self.loaded[node]]

    def final(self, node: int) -> int:
        """Returns the final class of a node of the source graph."""
        return self.history.cls(self.loaded[node])

    def rows_of(self, choices: Choices, chosen: Mapping[int, int]) -> dict[int, TableRow]:
        """Returns {class of the choice: row of its e-node}.

        Raises ExplainError if the e-graphs differ.
        """
        at = {c: self.final(n) for n, c in choices.frozen.handle.items()}
        out: dict[int, TableRow] = {}
        stack = [*chosen][::-1]
        while stack:
            cls = stack.pop()
            if cls in out:
                continue
            candidate = choices.candidates[chosen[cls]]
            if missing := [c for c in candidate.operands if c not in out]:
                stack += [cls, *missing]
                continue
            row = self._row(candidate.enode, choices, tuple(out[c][2] for c in candidate.operands))
            if row is None or at.get(choices.classes[cls], row[2]) != row[2]:
                raise ExplainError(
                    "saturating again gave another e-graph (another egglog, or other rules): this run cannot be explained here"
                )
            out[cls] = row
        return out

    def _row(self, e: ENode, choices: Choices, operands: tuple[int, ...]) -> TableRow | None:
        value: LeafValue | Move | Call
        if e.op in ("input", "const"):
            t = choices.frozen.types[e.cls]
            assert t is not None, "leaves have types"
            name, value = "Leaf", LeafValue(Node(e.op, (), e.attrs, t.shape, t.dtype))
        elif e.move is not None:
            name, value = "Move", e.move
        else:
            name, value = constructor(e.op, e.attrs, len(operands)), Call(e.op, e.attrs)
        if (known := self.history.values.known(value)) is None:
            return None
        args = (known, operands) if name in ("Cat", "Opq") else (known, *operands)
        return self.history.find(name, args, FOREVER - 1)

    def name(self, cls: int, step: int) -> str:
        """Returns the name of a class at a step.

        It is the first source node in the class, or a constant, or a number of its own.
        """
        if step not in self._labels:
            loaded = sorted(self.loaded.items(), reverse=True)
            self._labels[step] = {self.history.cls(c, step): n for n, c in loaded}
        node = self._labels[step].get(self.history.cls(cls, step))
        if node is None:
            return f"e{cls}"
        source = self.source.nodes[node]
        return f"const{list(source.shape)}".replace(" ", "") if source.op == "const" else f"n{node}"
