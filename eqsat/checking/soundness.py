"""The soundness checker: all e-nodes of one class of a saturated e-graph must agree to the bit.

That is proved for every input where possible (`proofs.py`); other e-nodes are compared on samples.

>>> from eqsat.rules import RULES
>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> g.outputs = [g.add("transpose", (g.add("transpose", (x,), perms=(1, 0)),), perms=(1, 0))]
>>> checked = check(g, RULES)
>>> checked.proved == checked.frozen.n_nodes, "move-move" in checked.frozen.saturation.matches
(True, True)

It checks the project's own rules and those of users alike.
A rule is checked only on graphs on which it fires.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.checking.proofs import prove, visit
from eqsat.egraph.encoding import ENode, Frozen, saturate
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget
from eqsat.egraph.rule import Rule
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import evaluate_op
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Array, GraphError, Type

#: Samples on which e-nodes are compared.
TRIALS = 4


class Unsound(AssertionError):
    """Two e-nodes of one class have different values; the message says which, and where."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An e-graph that passed the check.

    evaluated: number of e-nodes that were proved or compared on samples.
    Opaque operators and their readers have no value in numpy.
    proved: number of e-nodes equal to the others of their class for every input.
    undecided: {operator: number of its e-nodes that are not proved}, as in `Proofs`.
    """

    frozen: Frozen
    evaluated: int
    proved: int = 0
    undecided: Mapping[str, int] = field(default_factory=dict)


def check(
    graph: TensorGraph, rules: Sequence[Rule], *, budget: Budget = DEFAULT_BUDGET, trials: int = TRIALS
) -> Checked:
    """Saturates a graph with rules and checks its e-graph.

    trials: samples on which e-nodes that are not proved are compared.
    Raises Unsound, EngineError (also if a rule changes a type), and GraphError if the graph
    itself cannot be evaluated.
    """
    return check_frozen(saturate(graph, rules, budget), trials)


def check_frozen(frozen: Frozen, trials: int = TRIALS) -> Checked:
    """Checks a saturated e-graph.

    E-nodes are proved equal where possible, the others are compared on samples.
    The classes of the outputs must have the source graph's values.
    Raises Unsound and GraphError.
    """
    proofs = prove(frozen)
    graph, evaluated = frozen.source, len(proofs.equal)
    for given in samples(domains(graph), trials) if proofs.undecided else ():
        inputs = {graph.nodes[i].attr("name"): x for i, x in zip(graph.inputs, given, strict=True)}
        values, evaluated = _class_values(frozen, inputs, proofs.equal)
        for slot, (o, want) in enumerate(zip(graph.outputs, graph.evaluate(given), strict=True)):
            found = values.get(frozen.handle[o])
            if found is None or not np.array_equal(found, want):
                raise Unsound(f"the class of output {slot} lost the value of the graph")
    return Checked(frozen, evaluated, len(proofs.equal), dict(proofs.undecided))


def _class_values(frozen: Frozen, inputs: Mapping[str, Array], proved: Collection[int]) -> tuple[dict[int, Array], int]:
    """Returns ({class of an output: value}, number of e-nodes evaluated).

    inputs: {name: array}. proved: the `id` of e-nodes that need not be compared.
    Raises Unsound if e-nodes of a class differ.
    """
    values: dict[int, Array] = {}
    origin: dict[int, ENode] = {}
    evaluated = 0
    for e in visit(frozen, values, [frozen.handle[o] for o in frozen.source.outputs]):
        if id(e) in proved and e.cls in values:
            evaluated += 1
            continue
        t = frozen.type_of(e.cls)
        value = _evaluate(e, values, t, inputs)
        if value is None:
            continue
        evaluated += 1
        if e.cls not in values:
            if value.shape != t.shape:
                raise Unsound(f"{_text(e)} has shape {value.shape}, its class {t.shape}")
            values[e.cls], origin[e.cls] = value, e
        elif not np.array_equal(values[e.cls], value):
            raise Unsound(_difference(origin[e.cls], values[e.cls], e, value))
    return values, evaluated


def _evaluate(e: ENode, values: Mapping[int, Array], t: Type, inputs: Mapping[str, Array]) -> Array | None:
    if e.op == "input":
        return inputs[dict(e.attrs)["name"]]
    if e.op == "const":
        return dict(e.attrs)["value"].data if not DType.of(t.dtype).carried else None
    operands = [values[c] for c in e.children]
    if e.move is not None:
        return e.move.apply(operands[0])
    try:
        return evaluate_op(e.op, e.attrs, operands, t)
    except GraphError:
        return None  # opaque


def _difference(e: ENode, value: Array, other: ENode, its: Array) -> str:
    if value.shape != its.shape:
        return f"{_text(e)} has shape {value.shape}, but {_text(other)} {its.shape}"
    at = tuple(int(i) for i in np.argwhere(value != its)[0])
    return f"{_text(e)} = {value[at]}, but {_text(other)} = {its[at]} at {at}"


def _text(e: ENode) -> str:
    return f"{e.op} {e.move or ' '.join(f'{k}={v}' for k, v in e.attrs)} of {e.children}"
