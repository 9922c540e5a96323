"""The op table answers every question about every operator, and its integers are those of the TOSA reference model, to
the bit, in all shapes; test_semantics.py has all attributes."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest

from eqsat.checking.random_graphs import random_graph as small_graph
from eqsat.egraph.attributes import constructor
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor import schema
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.ops.op import NotModelled, Op, OpKind, define, same
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import GraphError, Type
from eqsat.tosa import dumps
from tests.forms import OPEN, by_operator
from tests.random_graphs import random_graph
from tests.reference import run_reference
from tests.term import finish

EVALUATED = {op for op, spec in OPS.items() if spec.tosa and not isinstance(spec.integer, NotModelled)}


def check(graph: TensorGraph, values: list[np.ndarray], worker: Worker) -> None:
    want = run_reference(dumps(graph), values, worker, timeout=20)
    for got, ref, t in zip(graph.evaluate(values), want, graph.signature()[1], strict=True):
        assert got.dtype == DType.of(t.dtype).storage and got.shape == t.shape
        np.testing.assert_array_equal(got, ref)


def test_every_value_of_random_graphs_equals_the_reference_model(worker: Worker) -> None:
    """But sums of INT48, which it does not show: of all operators, in many shapes, broadcast, and behind others."""
    seen = set[str]()
    for seed, drawn in itertools.product(range(150), (small_graph, random_graph)):
        g = drawn(seed)
        seen |= g.op_counts().keys()
        shown = [n for n in g.live() if g.nodes[n].dtype != "INT48" and g.nodes[n].op not in ("input", "const")]
        check(finish(g, *shown), samples(domains(g), 3)[2], worker)
    assert seen >= EVALUATED and by_operator().keys() >= EVALUATED


@pytest.mark.parametrize("op", sorted(op for op in EVALUATED if OPS[op].kind == "pointwise"))
def test_tensors_without_axes_equal_the_reference_model(op: str, pool: Pool) -> None:
    """TOSA allows them where no attribute names an axis."""
    form = next(f for f in by_operator()[op] if not f.after)
    scalar = replace(form, types=tuple(Type((), t.dtype) for t in form.types))
    found = scalar.answers(pool)
    for ours, theirs in zip(scalar.values, found, strict=True):
        assert (ours is OPEN) == (theirs is OPEN)
        if ours is not OPEN:
            np.testing.assert_array_equal(ours, theirs, strict=True)
    assert any(theirs is not OPEN for theirs in found)


# ---- the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_every_op_answers_every_question(op: Op) -> None:
    """What is not in the record's signature: TOSA's schema, the e-graph and the text know every operator."""
    assert OPS[op.name] is op and op.operands >= -1
    assert op.kind in get_args(OpKind)
    for semantics in (op.integer,):
        assert callable(semantics) or semantics.why
    if op.tosa:
        assert op.name.upper() in schema.OP_NAME.values()
        known = {
            *schema.fields(schema.union_for(op.name.upper())),
            *(a for a, _ in op.folded),
            *(["dtype"] if op.declared else []),
        }
        assert callable(op.shown) or set(op.shown) <= known
    assert constructor(op.name, max(op.operands, 1))
    if op.roles:
        assert op.roles.split("->")[0].count(",") + 1 == op.operands and op.roles.count("->") == 1


@pytest.mark.parametrize("missing", ["infer", "integer", "kind", "operands"])
def test_a_missing_answer_is_an_error_when_the_op_is_defined(missing: str) -> None:
    answers = {f.name: getattr(OPS["abs"], f.name) for f in fields(Op)}
    del answers[missing]
    with pytest.raises(TypeError, match=missing):
        Op(**answers)


def test_an_axial_op_says_along_which_axes() -> None:
    with pytest.raises(TypeError, match="along"):
        replace(OPS["abs"], kind="axial")
    with pytest.raises(TypeError, match="roles"):
        replace(OPS["abs"], kind="indexed")


def test_an_op_is_defined_once() -> None:
    with pytest.raises(ValueError, match="two operators abs"):
        define("pointwise", "abs", 1, same, NotModelled("is another one"))


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("gather", [np.zeros((1, 3, 2), np.int8), np.full((1, 4), 3, np.int32)]),
        ("gather", [np.zeros((1, 3, 2), np.int8), np.full((1, 4), -1, np.int32)]),
        ("scatter", [np.zeros((1, 3, 2), np.int8), np.zeros((1, 2), np.int32), np.ones((1, 2, 2), np.int8)]),
    ],
)
def test_what_tosa_leaves_open_is_not_evaluated(op: str, values: list[np.ndarray]) -> None:
    """Positions outside, and positions written twice."""
    types = [Type(x.shape, "INT32" if x.dtype == np.int32 else "INT8") for x in values]
    with pytest.raises(GraphError, match="position"):
        evaluate_op(op, (), values, infer(op, (), types))
