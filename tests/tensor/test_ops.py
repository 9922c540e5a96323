"""The op table answers every question about every operator; its integers are those of the TOSA reference model."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest

from eqsat.checking.random_graphs import random_graph as small_graph
from eqsat.egraph.kinds import constructor
from eqsat.ground.worker import Pool, Worker
from eqsat.proof import PROVED, prove
from eqsat.proof.steps import Undecidable
from eqsat.tensor import schema
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.ops.op import NotModelled, Op, OpKind, define, same
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import DTYPES, Array, DType, GraphError, Type
from eqsat.tosa import dumps
from eqsat.tosa.flatbuffer import TosaError, pack, unpack
from tests.forms import OPEN, SILENT, Form, by_operator, followed
from tests.proof.concrete import Opaque, outputs_at
from tests.random_graphs import random_graph
from tests.reference import run_reference
from tests.sweeps import parts, some
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
    assert callable(op.integer) or op.integer.why
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


ALL = pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda d: d.name)


def test_the_dtypes_are_those_of_the_schema() -> None:
    assert DTYPES.keys() == schema.DTYPE_CODE.keys() - {"UNKNOWN", "SHAPE"}


@ALL
def test_storage_holds_the_limits(dtype: DType) -> None:
    if not dtype.is_integral:
        with pytest.raises(ValueError, match=dtype.name):
            _ = dtype.limits
        return
    for value in dtype.limits:
        assert int(np.array(value).astype(dtype.storage)) == value
    if dtype.bits == 8 * np.dtype(dtype.storage).itemsize and dtype.kind == "integer":
        assert dtype.limits == (np.iinfo(dtype.storage).min, np.iinfo(dtype.storage).max)


@ALL
def test_what_a_dtype_leads_to_is_a_dtype(dtype: DType) -> None:
    assert dtype.accumulator in DTYPES and DType.of(dtype.accumulator).bits >= dtype.bits
    assert dtype.is_accumulator == any(d.accumulator == dtype.name != d.name for d in DTYPES.values())
    assert dtype.is_wide == (dtype.name == "INT32")
    if dtype.lookup:
        low, high = dtype.limits
        assert {dtype.lookup.dtype, dtype.lookup.result} <= DTYPES.keys()
        values = high - low + 1
        assert dtype.lookup.entries == values or values % (dtype.lookup.entries - 1) == 0


@ALL
def test_constants_survive_the_file(dtype: DType) -> None:
    shape = (3, 5)
    if dtype.carried:
        data = np.arange(math.ceil(15 * dtype.bits / 8), dtype=np.uint8)
    elif dtype.is_integral:
        data = np.resize(np.array([*dtype.limits, 0, 1], dtype.storage), shape)
    else:
        data = np.linspace(-2, 2, 15).astype(dtype.storage).reshape(shape)
    raw = pack(data, dtype.name)
    assert raw.dtype == np.uint8 and raw.size == math.ceil(15 * dtype.bits / 8)
    back = unpack(raw, dtype.name, shape)
    assert back.dtype == data.dtype and np.array_equal(back, data)
    with pytest.raises(TosaError, match="truncated"):
        unpack(raw[:-1], dtype.name, shape)


def test_unknown_names_are_carried() -> None:
    found = DType.of("UINT4")
    assert found.carried and not (found.is_integral or found.is_activation or found.is_accumulator) and found.size == 4


def test_what_is_carried_is_never_computed_with() -> None:
    """Its storage is raw bytes: as numbers they would mean something else."""
    with pytest.raises(GraphError, match="cannot be evaluated"):
        evaluate_op("reverse", (("axis", 0),), [np.zeros(4, np.uint8)], Type((4,), "FP8E4M3"))


FORMS = by_operator()
#: Forms of an operator in the suite, at most.
_MOST = 100
#: What the prover has no form for: MUL with a shift of 63, a bias with which a TRANSPOSE_CONV2D may overflow on its
#: way, and all constants of the others.
_NO_FORM = {"argmax", "mul", "scatter", "transpose_conv2d"}


def constant(value: Array, dtype: str) -> TensorGraph:
    g = TensorGraph()
    g.outputs.append(g.add_const(value, dtype))
    return g


def check_values(form: Form, pool: Pool) -> None:
    """The op table against the reference model."""
    silent = any(op in SILENT for op, _ in form.steps())
    for sample, ours, theirs in zip(form.samples, form.values, form.answers(pool), strict=True):
        if ours is OPEN and silent:
            continue
        assert (ours is OPEN) == (theirs is OPEN), (form.text, sample, ours, theirs)
        if ours is not OPEN:
            np.testing.assert_array_equal(ours, theirs, f"{form.text} {sample}", strict=True)


def check_terms(form: Form) -> None:
    """The prover against the op table: of constants and of inputs."""
    graph = form.graph()
    dtype = graph.type(graph.outputs[0]).dtype
    values = form.values
    defined = [k for k, v in enumerate(values) if v is not OPEN]
    for k in [k for k, v in enumerate(values) if v is OPEN][:3]:
        of_constants = form.graph(form.samples[k])
        with contextlib.suppress(GraphError):  # positions outside have no value at all
            result = constant(of_constants.evaluate([])[0], dtype)
            proof = prove(result, of_constants, seed=5, search=False)
            assert proof.verdict != PROVED, (form.text, form.samples[k])
    if form.is_pointwise and defined:
        columns = [np.concatenate([form.samples[k][i] for k in defined]) for i in range(len(form.inputs))]
        cases = [(columns, np.concatenate([values[k] for k in defined]))]
    else:
        cases = [(form.samples[k], values[k]) for k in defined[:3]]
    for operands, result in cases:
        proof = prove(constant(result, dtype), form.graph(operands), seed=5, search=False)
        assert proof.verdict == PROVED or form.op in _NO_FORM, (form.text, operands, proof.undecided)
    for k in defined[:5]:
        with contextlib.suppress(Opaque, Undecidable):
            found = outputs_at(graph, form.samples[k])[0]
            np.testing.assert_array_equal(found, values[k], f"{form.text} {form.samples[k]}")


@pytest.mark.parametrize("seed", some(range(1, 10), 1))
def test_operators_behind_others_agree_too(seed: int, pool: Pool) -> None:
    for form in followed(40, seed):
        check_values(form, pool)
        check_terms(form)


@pytest.mark.slow
@pytest.mark.parametrize("forms", parts(FORMS, _MOST))
def test_all_attributes_agree(forms: list[Form], pool: Pool) -> None:
    for form in forms:
        check_values(form, pool)
        check_terms(form)
