"""The tensor language: types are inferred or refused, graphs keep their order, constants cannot change."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.tensor import makers, schema
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.ops.op import broadcast
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND
from eqsat.tensor.types import Attrs, Const, GraphError, Type, attrs_of, occurrences
from eqsat.tosa import dumps, loads
from tests.graphs import residual
from tests.term import Term, graph, inputs, outputs


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("negate", {}, "negate takes the attributes in_zp, out_zp, got none"),
        ("negate", {"in_zp": (0,)}, "takes the attributes in_zp, out_zp, got in_zp"),
        ("negate", {"in_zp": 0, "out_zp": (0,)}, "the attribute in_zp is 0: give a tuple of numbers"),
        ("negate", {"in_zp": (), "out_zp": (0,)}, r"in_zp is \(\): give a tuple of numbers"),
        ("negate", {"in_zp": ("0",), "out_zp": (0,)}, "give a tuple of numbers"),
        ("transpose", {"perm": (1, 0)}, "takes the attributes perms, got perm"),
        ("transpose", {"perms": np.array((1, 0))}, "give a tuple of numbers"),
        ("reverse", {"axis": (1,)}, "axis is .*: give an integer"),
        ("reverse", {"axis": True}, "axis is True: give an integer"),
        ("clamp", {"min_val": 0, "max_val": b"\x7f", "nan_mode": 1}, "min_val is 0: give bytes"),
        ("cast", {"dtype": 8}, "dtype is 8: give the name of a dtype"),
        ("abs", {"in_zp": (0,)}, "abs takes the attributes none, got in_zp"),
        (
            "rescale",
            {"dtype": "INT8", "multiplier": (1,), "shift": (2,)},
            "takes the attributes dtype, in_zp, input_un",
        ),
    ],
)
def test_attributes_that_are_missing_unknown_or_of_another_type_are_refused(op: str, attrs, words: str) -> None:
    g = TensorGraph()
    x = g.add_input("x", (2, 3), "INT8")
    with pytest.raises(GraphError, match=words):
        g.add(op, [x], **attrs)
    assert len(g.nodes) == 1


def test_broadcast() -> None:
    assert broadcast([(1, 3, 1), (4, 1, 1), (4, 3, 1)]) == (4, 3, 1)
    with pytest.raises(GraphError, match="ranks"):
        broadcast([(3,), (1, 3)])
    with pytest.raises(GraphError, match="broadcast"):
        broadcast([(2, 3), (3, 3)])


INEXACT_ROUND = 2
X, Y, Z = Type((1, 4, 5, 3), "INT8"), Type((1, 4, 5, 2), "INT8"), Type((1, 4, 5, 3), "INT32")
#: Of a convolution with one tap.
ONE = [X, Type((2, 1, 1, 3), "INT8"), Type((2,), "INT32")]
CONV, DECONV = {"pad": (0,) * 4, "stride": (1, 1), "dilation": (1, 1)}, {"out_pad": (0,) * 4, "stride": (1, 1)}
REFUSED = [
    ("abs", {}, [Z, Z], "takes 1"),
    ("transpose", {"perms": (0, 1, 2)}, [X], "permutation"),
    ("transpose", {"perms": (0, 1, 2, 2)}, [X], "permutation"),
    ("reshape", {"shape": (4, 4)}, [X], "reshape"),
    ("reshape", {"shape": (-4, -15)}, [X], "reshape"),
    ("add", {}, [X, Z], "dtypes"),
    ("add", {}, [X, Y], "broadcast"),
    ("mul", {"shift": (0,)}, [X, Z], "dtypes"),
    ("select", {}, [X, Z, Z], "BOOL"),
    ("concat", {"axis": 4}, [X, Y], "axis"),
    ("concat", {"axis": -1}, [X, Y], "axis"),
    ("concat", {"axis": 1}, [X, Y], "concatenate"),
    ("concat", {"axis": 3}, [X, Z], "dtypes"),
    ("slice", {"start": (0, 0, 0, 1), "size": (1, 4, 5, 3)}, [X], "leaves"),
    ("slice", {"start": (0, 0, 0, 0), "size": (1, 4, 5, 0)}, [X], "leaves"),
    ("slice", {"start": (0,), "size": (1,)}, [X], ""),
    ("pad", {"pads": (0, 0, 0, -1, 0, 0, 0, 0)}, [X], "pads"),
    ("pad", {"pads": (0, 1)}, [X], "pads"),
    ("tile", {"multiples": (1, 1, 0, 1)}, [X], "multiples"),
    ("reverse", {"axis": 7}, [X], "axis"),
    ("reduce_max", {"axis": -1}, [X], "axis"),
    ("argmax", {"axis": 4}, [X], "axis"),
    ("table", {"table": (1, 2)}, [X], "table"),
    ("table", {"table": tuple(range(256))}, [Z], "table"),
    ("rescale", {"multiplier": (1, 1), "shift": (9, 9), "per_channel": True, "dtype": "INT8"}, [X], "3 channels"),
    ("rescale", {"multiplier": (1,) * 3, "shift": (9,) * 3, "per_channel": False, "dtype": "INT8"}, [X], "1 channels"),
    ("conv2d", CONV, [X, Type((2, 1, 1, 4), "INT8"), Type((2,), "INT32")], "channels"),
    ("conv2d", CONV, [X, Type((2, 1, 1, 3), "INT8"), Type((3,), "INT32")], "bias"),
    ("conv2d", {}, ONE, "pad"),
    ("depthwise_conv2d", CONV, [X, Type((1, 1, 2, 1), "INT8"), Type((2,), "INT32")], "channels"),
    ("transpose_conv2d", DECONV, [X, Type((2, 1, 1, 4), "INT8"), Type((2,), "INT32")], "channels"),
    ("matmul", {}, [Type((1, 2, 3), "INT8"), Type((1, 4, 2), "INT8")], "multiply"),
    ("matmul", {}, [Type((2, 2, 3), "INT8"), Type((1, 3, 2), "INT8")], "multiply"),
    ("max_pool2d", {"kernel": (1, 1), "stride": (1, 1), "pad": (0,) * 4}, [Type(X.shape, "BOOL")], "BOOL"),
    ("input", {}, [], "leaf"),
    # numbers that TOSA forbids
    *(("rescale", makers.rescale("INT8", 1, s), [Z], f"shifts from {s} to {s}") for s in (-1, 0, 1, 63)),
    ("rescale", makers.rescale("INT8", -1, 30), [Z], "multipliers from -1"),
    ("rescale", makers.rescale("INT8", 1 << 31, 30), [Z], "multipliers from 2147483648"),
    ("rescale", makers.rescale("INT8", 1 << 15, 30, scale32=False), [Z], "multipliers from 32768"),
    ("rescale", makers.rescale("INT8", 1, 30, scale32=False, rounding_mode=DOUBLE_ROUND), [Z], "double rounding"),
    ("rescale", makers.rescale("INT8", input_unsigned=True, output_unsigned=True), [X], "unsigned"),
    *(("mul", makers.mul(s), [Z, Z], f"a shift of {s}") for s in (-1, 64)),
    *(("mul", makers.mul(1), [Type((1,), d)] * 2, "a shift of 1") for d in ("INT8", "INT16")),
    ("conv2d", makers.conv("INT8", pad=(-1, 0, 0, 0)), ONE, "pads -1"),
    ("reduce_sum", {"axis": 1}, [Type((1,), "INT32")], "axis"),
]


@pytest.mark.parametrize(("op", "attrs", "operands", "reason"), REFUSED)
def test_what_does_not_fit_is_refused(op: str, attrs: Attrs | dict, operands: list[Type], reason: str) -> None:
    with pytest.raises(GraphError, match=reason) as e:
        infer(op, attrs_of(dict(attrs)), operands)
    assert str(e.value).startswith(op)


def test_results_without_elements_are_refused() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 1), "INT8")
    with pytest.raises(GraphError, match="zero-size"):
        g.add_with("max_pool2d", [x], makers.max_pool((9, 1)))
    for shape in ((2, 0), (-1,)):
        with pytest.raises(GraphError, match="'empty'"):
            g.add_input("empty", shape, "INT8")
    with pytest.raises(GraphError, match="two inputs"):
        g.add_input("x", (1,), "INT8")


def test_constants_are_equal_by_content_and_cannot_change() -> None:
    data = np.arange(6, dtype=np.int8).reshape(2, 3)
    g = TensorGraph()
    c = g.add_const(data, "INT8")
    data[0, 0] = 99
    value = g.nodes[c].attr("value")
    assert value.data[0, 0] == 0
    assert value == Const(value.data.copy(), "INT8") and hash(value) == hash(Const(value.data.copy(), "INT8"))
    with pytest.raises(ValueError):
        value.data[0, 0] = 1
    assert g.add_const(np.arange(6).reshape(2, 3), "INT8") == c
    others = [
        g.add_const(data, "INT8"),
        g.add_const(np.arange(6).reshape(3, 2), "INT8"),
        g.add_const(np.arange(6).reshape(2, 3), "INT16"),
    ]
    assert len({c, *others}) == 4


def test_equal_ops_stay_distinct() -> None:
    (x,) = inputs("x:INT8[2]")
    assert x.rescale("INT32").n != x.rescale("INT32").n


def test_attributes_have_one_form() -> None:
    """Lists and numbers of numpy are attributes too."""
    assert attrs_of({"b": [1, 2], "a": 3}) == attrs_of({"a": 3, "b": (1, 2)}) == (("a", 3), ("b", (1, 2)))
    (x,) = inputs("x:INT8[2,3]")
    y = x("transpose", perms=[np.int64(1), np.int32(0)])
    assert y.shape == (3, 2) and x("reduce_sum", axis=np.int64(1)).shape == (2, 1)
    assert x.g.nodes[y.n].attr("perms") == (1, 0)
    with pytest.raises(KeyError, match="transpose.*axis"):
        x.g.nodes[y.n].attr("axis")


def test_live_readers_and_pruned() -> None:
    x, _ = inputs("x:INT8[2,3] unread:INT8[4]")
    y = x.relu()
    y.transpose(1, 0)  # nobody reads it
    x.const(np.zeros(3))
    z = y.max(y)
    g = outputs(z, y, z)
    assert g.live() == [0, 1, 2, 5]
    assert g.readers() == {0: [2], 1: [], 2: [5, 5], 5: []}
    p = g.prune()
    assert len(p.nodes) == 4 and p.outputs == [3, 2, 3] and p.inputs == [0, 1] and p.output_names == g.output_names
    assert p.signature() == g.signature() and p.op_counts() == g.op_counts() == {"clamp": 1, "maximum": 1}
    values = [np.array([[1, -128, 5], [0, 7, -1]], np.int8), np.zeros(4, np.int8)]
    assert all(np.array_equal(a, b) for a, b in zip(p.evaluate(values), g.evaluate(values), strict=True))


def test_a_graph_is_rewritten_in_places() -> None:
    """A node is written twice over, another is left out, and what is added stands for what it was written for."""
    (x,) = inputs("x:INT8[4]")
    least = x.clamp(0, 9)
    both = least.max(x)
    g = outputs(both.clamp(1, 5))

    def clamps(out: Rewritten) -> int:
        low = Term(out.graph, out.number[x.n]).clamp(0, 127)
        out.source[low.n] = x.n
        return low.clamp(-128, 9).n

    out = g.rewrite({both.n: clamps}, without=[least.n])
    assert [n.op for n in out.graph.nodes] == ["input", "clamp", "clamp", "clamp"]
    end = g.outputs[0]
    assert out.number == {x.n: 0, both.n: 2, end: 3} and out.source == {0: x.n, 1: x.n, 2: both.n, 3: end}
    assert out.graph.signature() == g.signature() and out.graph.output_names == ["y0"]


def test_opaque_ops_count_under_their_tosa_name() -> None:
    t = Type((2,), "INT8")
    both = inputs("x:INT8[2]")[0].opaque("CUSTOM", [t, t])
    g = outputs(both("item", index=1, shape=t.shape, dtype=t.dtype))
    assert g.op_counts() == {"custom": 1}
    with pytest.raises(GraphError, match="reference model"):
        g.evaluate([np.zeros(2, np.int8)])


def test_evaluate_wants_the_inputs_shapes() -> None:
    g = residual()
    with pytest.raises(GraphError, match="'x' has shape"):
        g.evaluate([np.zeros((1, 8, 8, 15), np.int8)])
    with pytest.raises(ValueError):
        g.evaluate([])


def test_floats_are_moved_but_not_computed_with() -> None:
    x = np.array([[1.5, -2.25]], np.float32)
    moved = evaluate_op("transpose", attrs_of({"perms": (1, 0)}), [x], Type((2, 1), "FP32"))
    assert moved.dtype == np.float32 and moved.tolist() == [[1.5], [-2.25]]
    with pytest.raises(GraphError, match="reference model"):
        evaluate_op("abs", (), [x], Type((1, 2), "FP32"))


def test_inexact_rounding_is_not_computed() -> None:
    """The reference model rounds it in floating point: no integer formula gives the same."""
    g = graph("x:INT8[2]", lambda x: x.rescale("INT8", rounding_mode=INEXACT_ROUND))
    with pytest.raises(GraphError, match="reference model"):
        g.evaluate([np.zeros(2, np.int8)])


def test_bytes_of_types() -> None:
    assert Type((2, 3), "INT16").bytes == 12 and Type((), "INT32").elements == 1
    assert Type((1 << 20,) * 4, "INT8").elements == 1 << 80


def test_every_value_of_int8_is_counted_in_its_place() -> None:
    data = np.random.default_rng(0).integers(-128, 128, (4, 9, 5)).astype(np.int8)
    for view in (data, data.transpose(2, 0, 1), data[::2, 1:4]):
        assert occurrences(view).tolist() == [int((view == v).sum()) for v in range(-128, 128)]


# ---- makers of attributes ---------------------------------------------------------------------------


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
