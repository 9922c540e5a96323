"""Values and the inputs for which TOSA defines them, of every operator at its limits: the op table, the TOSA reference
model and the prover agree."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, prove
from eqsat.proof.steps import Undecidable
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array, GraphError
from tests.forms import OPEN, SILENT, Form, by_operator, followed
from tests.proof.concrete import Opaque, outputs_at
from tests.sweeps import parts, some

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
