"""Makers give every attribute that the schema asks for, as the reference model and Vela want them."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.tensor import makers, schema
from eqsat.tosa import dumps, loads
from tests.term import graph

MADE = {
    "rescale": makers.rescale("INT8"),
    "conv2d": makers.conv("INT8"),
    "depthwise_conv2d": makers.conv("INT16"),
    "transpose_conv2d": makers.transpose_conv("INT8"),
    "matmul": makers.matmul(),
    "max_pool2d": makers.max_pool((2, 2)),
    "avg_pool2d": makers.avg_pool((2, 2)),
    "clamp": makers.clamp("INT8"),
    "table": makers.table(range(256)),
    "pad": makers.pad((0, 1)),
    "mul": makers.mul(),
    "maximum": makers.extremum(),
    "minimum": makers.extremum(),
    "reduce_max": makers.extremum(0),
    "reduce_min": makers.extremum(0),
    "argmax": makers.extremum(0),
}


@pytest.mark.parametrize("op", MADE)
def test_every_field_of_the_schema_is_given(op: str) -> None:
    assert schema.fields(schema.union_for(op.upper())) <= dict(MADE[op]).keys()


def test_defaults_change_nothing() -> None:
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 4, 8, 8)
    for g in (graph("x:INT8[1,4,8,8]", lambda x: x.rescale("INT8")), graph("x:INT8[1,4,8,8]", lambda x: x.clamp())):
        assert np.array_equal(g.evaluate([x])[0], x)
    wide = np.arange(-4, 4, dtype=np.int16)
    g = graph("x:INT16[8]", lambda x: x.rescale("INT16", scale32=False))
    assert np.array_equal(g.evaluate([wide])[0], wide)


@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
def test_clamps_and_accumulators_are_those_of_the_dtype(dtype: str) -> None:
    x = np.array([-100, 0, 100]).astype(np.int8 if dtype == "INT8" else np.int16)
    clamped = graph(f"x:{dtype}[3]", lambda x: x.clamp(-7, 9))
    assert loads(dumps(clamped)).evaluate([x])[0].tolist() == [-7, 0, 9]
    assert schema.DTYPE_NAME[dict(makers.conv(dtype))["acc_type"]] == {"INT8": "INT32", "INT16": "INT48"}[dtype]


def test_sequences_are_per_channel() -> None:
    assert dict(makers.rescale("INT8", 3, 2))["per_channel"] is False
    assert dict(makers.rescale("INT8", np.int64(3), 2))["multiplier"] == (3,)
    each = dict(makers.rescale("INT8", np.array([3, 4]), [2, 2]))
    assert each["per_channel"] is True and each["multiplier"] == (3, 4) and type(each["multiplier"][0]) is int
