"""What is stated of a dtype agrees with TOSA's schema, with numpy and with itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqsat.tensor import schema
from eqsat.tensor.dtypes import DTYPES, DType
from eqsat.tensor.ops import evaluate_op
from eqsat.tensor.types import GraphError, Type
from eqsat.tosa.flatbuffer import TosaError, pack, unpack

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
