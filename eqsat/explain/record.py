"""The record of a run: its graph saturated again, by rules that log their instances."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from eqsat.choice.choice import Choices
from eqsat.egraph.attributes import Call, LeafValue, constructor
from eqsat.egraph.encoding import ENode, engine_for, load
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.kinds import OPERANDS
from eqsat.egraph.log import Row, is_enode, row_of
from eqsat.egraph.rule import Rule
from eqsat.explain.closure import Closure
from eqsat.explain.words import value_text
from eqsat.ground.files import InputError
from eqsat.options.spellings import for_target
from eqsat.rules.presets import PRESETS
from eqsat.search.run import Run
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type

#: Depth of a term below which operands are only named.
_DEEPEST = 4


class ExplainError(InputError):
    """An object that cannot be explained; the message says why."""


class Record:
    """The terms of a saturation, and the proofs of their equalities.

    source: the graph that is saturated.
    loaded: {node of the source: its term}.
    nodes: {class: nodes of the source in it}.
    values: the attributes of e-nodes, by number.
    Raises EngineError.
    """

    def __init__(self, source: TensorGraph, rules: Sequence[Rule], budget: Budget):
        self.source = source
        self.closure = Closure()
        self.loaded: dict[int, int] = {}
        number: dict[Any, int] = {}
        logs = {r.name: r for r in rules}
        with engine_for(rules, logged=True) as engine:
            self.values = engine.intern
            load(engine, source, source.live())
            for name, args, cls in engine.rows(lambda name: name[0].isupper(), number):
                if is_enode(name):
                    self.closure.add(row_of(name, args, cls))
                else:
                    self.loaded[args[0]] = cls

            def watch(rule: str) -> None:
                for _, values, _ in engine.rows(f"log.{rule}".__eq__, number):
                    self.closure.apply(logs[rule].log.instance(values, self.closure.terms))

            engine.saturate(budget, watch)
            types = engine.rows("type".__eq__, number)
        self._types: dict[int, Type] = {self.closure.find(args[0]): self.values[t] for _, args, t in types}
        self.nodes: dict[int, list[int]] = defaultdict(list)
        for n in sorted(self.loaded):
            self.nodes[self.final(n)].append(n)

    def explicit(self, node: int) -> Row:
        """Returns the e-node of a node of the source, as loaded."""
        return self.closure.terms[self.loaded[node]]

    def final(self, node: int) -> int:
        """Returns the final class of a node of the source."""
        return self.closure.find(self.loaded[node])

    def type_of(self, cls: int) -> Type:
        """Returns the shape and dtype of a class."""
        return self._types[self.closure.find(cls)]

    def value(self, row: Row) -> Any:
        """Returns the operator, movement or leaf of an e-node."""
        return self.values[row.attributes[0]]

    def name(self, cls: int, time: int) -> str:
        """Returns the name of a class before a time: its first source node, a constant, or a number of its own."""
        find = self.closure.find
        nodes = self.nodes.get(find(cls), ())
        node = next((n for n in nodes if find(self.loaded[n], time) == find(cls, time)), None)
        if node is None:
            return f"e{cls}"
        source = self.source.nodes[node]
        return f"const{list(source.shape)}".replace(" ", "") if source.op == "const" else f"n{node}"

    def text(self, row: Row, time: int, inside: Collection[Row] = (), depth: int = 0) -> str:
        """Returns an e-node as a term before a time; `inside` are e-nodes of operands that are written out."""
        what = value_text(self.value(row)) + ("" if row.function in (*OPERANDS, "Opq") else " fitted to its operand")
        inner = []
        for c in row.operands:
            # an e-node that reads its own class says nothing
            below = next((r for r in inside if r.cls == c), None) if depth < _DEEPEST else None
            rest = [r for r in inside if r.cls != c]
            inner.append(
                self.text(below, time, rest, depth + 1) if below and c not in below.operands else self.name(c, time)
            )
        if len(inner) > 6:
            inner = [*inner[:3], f"... {len(inner) - 5} more", *inner[-2:]]
        return f"{what}({', '.join(inner)})" if inner else what

    def row(self, e: ENode, t: Type, operands: Sequence[int]) -> Row | None:
        """Returns the final form of an e-node of type `t` of another saturation, None if there is none.

        operands: its operands in this record.
        """
        value: LeafValue | Move | Call
        if e.op in ("input", "const"):
            name, value = "Leaf", LeafValue(Node(e.op, (), e.attrs, t.shape, t.dtype))
        elif e.move is not None:
            name, value = "Move", e.move
        else:
            name, value = constructor(e.op, len(operands)), Call(e.op, e.attrs)
        known = self.values.find(value)
        term = None if known is None else self.closure.term(Row(name, (known,), tuple(operands), 0))
        return None if term is None else self.closure.at(self.closure.terms[term])

    def rows_of(self, choices: Choices, chosen: Mapping[int, int]) -> dict[int, Row]:
        """Returns {class of a choice: its e-node}. Raises ExplainError if the e-graphs differ."""
        at = {c: self.final(n) for n, c in choices.frozen.handle.items()}
        out: dict[int, Row] = {}
        reads = {cls: choices.candidates[n].operands for cls, n in chosen.items()}
        for cls in TopologicalSorter(reads).static_order():
            e = choices.candidates[chosen[cls]].enode
            row = self.row(e, choices.frozen.type_of(e.cls), [out[c].cls for c in reads[cls]])
            if row is None or at.get(choices.classes[cls], row.cls) != row.cls:
                raise ExplainError(
                    "saturating again gave another e-graph (another egglog, or other rules): "
                    "this run cannot be explained here"
                )
            out[cls] = row
        return out


def record(run: Run, own: Sequence[Rule]) -> Record:
    """Returns the record of a run; `own`: the user's own rules that took part. Raises ExplainError."""
    known = {r.name: r for rules in (*PRESETS.values(), own) for r in rules}
    if missing := [n for n in run.rules if n not in known]:
        raise ExplainError(
            f"the run used rules that are not at hand: {', '.join(missing)}; give them (in Python: rules=)"
        )
    done = run.choices.frozen.saturation.iterations
    # the record has to get at least as far as the run, whatever stopped that
    nodes = 2 * max((i.nodes for i in done), default=1000)
    budget = Budget(nodes=nodes, seconds=3600.0, passes=max(1, len(done)), matches=sys.maxsize)
    try:
        return Record(run.source, for_target((known[n] for n in run.rules), run.target), budget)
    except EngineError as e:
        raise ExplainError(f"the saturation cannot be repeated: {e}") from e
