"""TOSA flatbuffers in and out: nothing is lost, and a bad file is an error with a reason."""

from __future__ import annotations

import json
from typing import Any

import flatbuffers
import numpy as np
import pytest
from tosa import TosaBasicBlock, TosaGraph, TosaRegion, Version

from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Shape, Type, attrs_of
from eqsat.tosa import TosaError, dumps, loads
from eqsat.tosa.flatbuffer import list_names, tensor_names
from eqsat.tosa.locations import Origin, parse, read, text, union
from eqsat.tosa.reference import compare
from eqsat.vela.compile import compile_tosa
from tests.graphs import channel_shuffle, conv_graph, operators, residual, transposed_relus
from tests.reference import run_reference
from tests.term import finish, graph, inputs, outputs


def resize_graph() -> TensorGraph:
    """RESIZE of a conv: shape operands that become attributes."""
    (x,) = inputs("x:INT8[1,4,4,8]")
    y = x.layer(8)("resize", scale=(4, 2, 4, 2), offset=(0, 0), border=(0, 0), mode=2)
    return outputs(y.rescale("INT8", shift=34))


def gather_graph() -> TensorGraph:
    (x,) = inputs("x:INT8[1,8,3]")
    index = x.const([[3, 0, 7, 7]], "INT32")
    return outputs(*(v("gather", index) for v in (x.const(np.arange(24).reshape(1, 8, 3)), x)))


def carried_graph() -> TensorGraph:
    """A dtype that numpy lacks: opaque, with its shape operand."""
    return graph("x:BF16[2,3]", lambda x: x.opaque("RESHAPE", [Type((6,), "BF16")], shapes=(None, (6,))))


def rfft_graph(*wanted: int) -> TensorGraph:
    """RFFT2D has two results; `wanted` of them are outputs."""
    t, (x,) = Type((1, 4, 3), "FP32"), inputs("x:FP32[1,4,4]")
    both = x.opaque("RFFT2D", [t, t], local_bound=False)
    return outputs(*(both("item", index=k, shape=t.shape, dtype=t.dtype) if k else both for k in wanted))


def custom_graph() -> TensorGraph:
    (x,) = inputs("x:INT8[2,3]")
    fields = {"operator_name": b"mine", "domain_name": b"here", "implementation_attrs": bytes(range(7))}
    return outputs(x.opaque("CUSTOM", [Type((2, 3), "INT8"), Type((1,), "INT32")], **fields).relu())


def outputs_graph() -> TensorGraph:
    """An input, a constant and one value twice among the outputs."""
    (x,) = inputs("x:INT8[1,4]")
    c, y = x.const([[1, -2]]), x.relu()
    return outputs(y, x, y, c, y.relu())


def names_graph() -> TensorGraph:
    """Names like those that the writer makes up."""
    x, y = inputs("n3:INT8[1,2,3] nc0:INT8[1,2,3]")
    out = x.relu().transpose(0, 2, 1).concat(y.transpose(0, 2, 1), axis=2)
    g = outputs(out, out, x)
    g.output_names = ["nn2", "n3", "nn2"]
    return g


def int48_graph() -> TensorGraph:
    (x,) = inputs("x:INT16[1,2,2,3]")
    w, b = x.const(np.arange(6).reshape(2, 1, 1, 3) - 3, "INT8"), x.const([-(2**47), 2**47 - 1], "INT48")
    return outputs(x.made("conv2d", makers.conv("INT16"), w, b).rescale("INT16", 16384, 46, scale32=False))


RUNNABLE = {
    f.__name__: f
    for f in (
        *(conv_graph, residual, transposed_relus, channel_shuffle),
        *(resize_graph, gather_graph, outputs_graph, names_graph, int48_graph),
    )
}
GRAPHS = {
    **RUNNABLE,
    **{"custom_graph": custom_graph, "carried_graph": carried_graph, "rfft_graph": lambda: rfft_graph(0, 1)},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_round_trip_keeps_everything(name: str) -> None:
    graph = GRAPHS[name]()
    first = loads(dumps(graph))
    assert dumps(loads(dumps(first))) == dumps(first)
    assert len(first.live()) == len(first.nodes)
    assert first.signature() == graph.signature()
    assert [first.nodes[i].attr("name") for i in first.inputs] == [graph.nodes[i].attr("name") for i in graph.inputs]
    written = [n.attrs for n in graph.nodes if n.op == "opaque"]
    assert [n.attrs for n in first.nodes if n.op == "opaque"] == written
    identities = len(graph.outputs) - len({o for o in graph.outputs if graph.nodes[o].op not in ("input", "const")})
    counts = first.op_counts()
    assert counts.pop("identity", 0) == identities and counts == graph.op_counts()


@pytest.mark.parametrize("name", RUNNABLE)
def test_round_trip_means_the_same(name: str, worker: Worker) -> None:
    graph = RUNNABLE[name]()
    assert compare(graph, loads(dumps(graph)), worker).equal
    if "opaque" not in [n.op for n in graph.nodes]:  # both semantics hold on whole graphs too
        for sample in samples(domains(graph), 4):
            answers = run_reference(dumps(graph), sample, worker)
            assert all(np.array_equal(x, y) for x, y in zip(graph.evaluate(sample), answers, strict=True))


@pytest.mark.parametrize("wanted", [(0, 1), (1, 0), (0,), (1,), (1, 1), (1, 0, 1, 0)])
def test_all_results_of_an_operator_are_written(wanted: tuple[int, ...], worker: Worker) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    both = run_reference(dumps(rfft_graph(0, 1)), [x], worker)
    assert not np.array_equal(*both)
    for written in (rfft_graph(*wanted), rfft_graph(*wanted).prune(), loads(dumps(rfft_graph(*wanted)))):
        got = run_reference(dumps(written), [x], worker)
        assert all(np.array_equal(g, both[k]) for g, k in zip(got, wanted, strict=True))


def test_every_output_slot_is_a_tensor_of_its_own() -> None:
    for g in (outputs_graph(), names_graph()):
        names = loads(dumps(g)).output_names
        assert len(set(names)) == len(g.outputs)
        assert not {g.nodes[i].attr("name") for i in g.inputs} & set(names)


def test_fractional_pad_values_are_kept(worker: Worker) -> None:
    g = graph("x:FP32[2]", lambda x: x("pad", pads=(1, 2), value=(0.75,)))
    (y,) = run_reference(dumps(loads(dumps(g))), [np.array([2, 3], np.float32)], worker)
    assert y.tolist() == [0.75, 2, 3, 0.75, 0.75]


@pytest.mark.parametrize(("source", "target"), [("BF16", "INT8"), ("INT8", "BF16"), ("FP8E4M3", "FP16")])
def test_dtypes_that_numpy_lacks_are_only_carried(source: str, target: str) -> None:
    g = TensorGraph()
    x = g.add_input("x", (2, 3), source)
    finish(g, g._put(Node("cast", (x,), attrs_of({"dtype": target}), (2, 3), target)))
    read = loads(dumps(g))
    assert read.op_counts() == {"cast": 1} and read.signature() == g.signature()
    assert [(n.attr("tosa"), n.attr("fields")) for n in read.nodes if n.op == "opaque"] == [("CAST", ())]
    assert dumps(loads(dumps(read))) == dumps(read)


# ---- bad files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", [b"", b"\0" * 7, b"\0" * 64, b"PK\3\4" + bytes(99), b"\x08\0\0\0TOSA"])
def test_other_files_are_refused_by_name(buffer: bytes) -> None:
    with pytest.raises(TosaError, match="model.tosa"):
        loads(buffer, "model.tosa")


def bare(major: int, regions: int) -> bytes:
    """A file without operators."""
    b = flatbuffers.Builder(0)
    made = []
    for _ in range(regions):
        TosaBasicBlock.Start(b)
        block = TosaBasicBlock.End(b)
        TosaRegion.StartBlocksVector(b, 1)
        b.PrependUOffsetTRelative(block)
        blocks = b.EndVector()
        TosaRegion.Start(b)
        TosaRegion.AddBlocks(b, blocks)
        made.append(TosaRegion.End(b))
    TosaGraph.StartRegionsVector(b, regions)
    for r in made:
        b.PrependUOffsetTRelative(r)
    vector = b.EndVector()
    Version.Start(b)
    Version.Add_Major(b, major)
    version = Version.End(b)
    TosaGraph.Start(b)
    TosaGraph.AddVersion(b, version)
    TosaGraph.AddRegions(b, vector)
    b.Finish(TosaGraph.End(b), b"TOSA")
    return bytes(b.Output())


def unchecked(*nodes: tuple[str, int, Shape, dict[str, Any]], shape: Shape = (2,)) -> bytes:
    """A file of an input, which is node 0, and of operators of one operand each, whose types and order are as given."""
    g = TensorGraph()
    g.inputs = [g._put(Node("input", (), attrs_of({"name": "x"}), shape, "INT8"))]
    return dumps(finish(g, *(g._put(Node(op, (x,), attrs_of(attrs), of, "INT8")) for op, x, of, attrs in nodes)))


BYTES = Type((2,), "INT8")
RESIZE = {"tosa": "RESIZE", "fields": (("mode", 1),), "shape_operands": (None,), "results": (BYTES,)}
IDENTITY, RESIZED = ("identity", 2, (2,), {}), ("opaque", 2, (2,), {**RESIZE, "shape": (2,), "dtype": "INT8"})
BRANCH = {"then_graph": b"a", "else_graph": b"b"}
REFUSED = {
    "an older version": (bare(0, 1), "TOSA 1.0"),
    "two regions": (bare(1, 2), "2 regions"),
    "control flow": (dumps(graph("c:BOOL[1]", lambda c: c.opaque("COND_IF", [BYTES], **BRANCH))), "COND_IF"),
    "read before it is written": (unchecked(IDENTITY, ("identity", 0, (2,), {})), "before it is written"),
    "a cycle": (unchecked(IDENTITY, ("identity", 1, (2,), {})), "before it is written"),
    "RESIZE of what comes later": (unchecked(RESIZED, ("identity", 0, (2,), {})), "before it is written"),
    "a cycle with RESIZE": (unchecked(RESIZED, ("identity", 1, (2,), {})), "before it is written"),
    "written twice": (dumps(graph("x:INT8[2]", lambda x: (x.relu(), x.relu(-100)))).replace(b"y1", b"y0"), "twice"),
    "no elements": (unchecked(("identity", 0, (2, 0), {}), shape=(2, 0)), "'x' has a dim below 1"),
    "a dynamic dim": (unchecked(("identity", 0, (2, -1), {}), shape=(2, -1)), "'x' has a dim below 1"),
    "another type": (unchecked(("transpose", 0, (2, 3), {"perms": (1, 0)}), shape=(2, 3)), "inconsistent"),
    "a shape computed at run time": (
        dumps(graph("x:INT8[2,3]", lambda x: x.opaque("DIM", [Type((1,), "INT32")], axis=0))),
        "DIM computes a shape",
    ),
}


@pytest.mark.parametrize("buffer, words", REFUSED.values(), ids=REFUSED)
def test_bad_files_are_refused_with_the_reason(buffer: bytes, words: str) -> None:
    with pytest.raises(TosaError, match=words):
        loads(buffer)


def test_a_file_may_have_no_operators() -> None:
    assert loads(bare(1, 1)).nodes == []


@pytest.mark.parametrize("names", [["y"], ["n0"], ["nc1"]])
def test_written_names_are_those_in_the_file(names: list[str]) -> None:
    graph = residual()
    graph.output_names = names
    read, kept = tensor_names(dumps(graph)), loads(dumps(graph))
    written = list_names(graph)
    assert written.keys() == set(graph.live()) and len(set(written.values())) == len(written)
    for n, name in written.items():
        assert kept.nodes[read[name]].op == graph.nodes[n].op and kept.type(read[name]) == graph.type(n)


ONE, TWO = Origin("conv2d_1", "features.0", "torch.nn.modules.conv.Conv2d", 4), Origin("relu", "", "", None)


def located() -> bytes:
    graph = residual()
    return dumps(graph, {n: text([ONE, Origin(f"node_{n}")]) for n in operators(graph)})


def test_origins_come_back() -> None:
    graph, buffer = residual(), located()
    names = list_names(graph)
    wanted = {names[n]: (ONE, Origin(f"node_{n}")) for n in operators(graph)}
    assert read(buffer) == wanted and set(wanted) <= set(tensor_names(buffer))
    assert read(dumps(graph)) == {}


def test_a_location_changes_no_graph_and_nothing_that_vela_makes(pool: Pool) -> None:
    plain, buffer = dumps(residual()), located()
    assert len(buffer) > len(plain) and dumps(loads(buffer)) == plain
    for target in ("ethos-u55-128", "ethos-u85-256"):
        a, b = (compile_tosa(x, Target.of(target), pool) for x in (plain, buffer))
        assert (a.cycles, a.rows, a.footprint) == (b.cycles, b.rows, b.footprint)


@pytest.mark.parametrize(
    ("location", "origins"),
    [
        ("", ()),
        (text([ONE, TWO]), (ONE, TWO)),
        (json.dumps(ONE.record()), (ONE,)),
        ("layer4/conv", (Origin("layer4/conv"),)),
        ("{}", ()),
        ("[3, null]", ()),
        (
            json.dumps(
                {
                    "event_id": 3,
                    "aten_info": {"node_name": "tosa_conv2d_default_1", "operator_name": "tosa.CONV2D.default"},
                    "torch_info": {
                        "stack_trace": ["line"],
                        "node_trace": [{"name": "convolution_1"}, {"name": "conv2d_1"}],
                        "nn_module_stack": {"L__self__": ["", "Net"], "f": ["features.0", "Conv2d"]},
                        "torch_fn": ["conv2d_1", "conv2d"],
                    },
                }
            ),
            (Origin("conv2d_1", "features.0", "Conv2d"),),
        ),
        (
            json.dumps({"aten_info": {"node_name": "add"}, "torch_info": {"node_trace": "No node trace available."}}),
            (Origin("add"),),
        ),
    ],
)
def test_what_a_location_may_say(location: str, origins: tuple[Origin, ...]) -> None:
    assert parse(location) == origins


def test_origins_are_shown_by_module_and_node_and_each_once() -> None:
    assert [str(o) for o in (ONE, TWO, Origin("", "head"))] == ["features.0: conv2d_1", "relu", "head"]
    assert union([(ONE, TWO), (TWO,)]) == (ONE, TWO)


def test_a_text_that_many_operators_share_is_not_read_without_end() -> None:
    """A small file may stand for an endless one: parts of a flatbuffer, such as strings, may be shared."""
    (x,) = inputs("x:INT8[1,2,2,3]")
    for _ in range(200):
        x = x.reverse(3)
    buffer = dumps(outputs(x), dict.fromkeys(range(1, 201), json.dumps([{"node": "n" * 100_000}])))
    assert len(buffer) < 200_000 and 0 < len(read(buffer)) < 100


@pytest.mark.parametrize(
    "location",
    [
        "[" * 100_000,
        '{"aten_info": 3}',
        '{"aten_info": {}, "torch_info": []}',
        '{"aten_info": {}, "torch_info": {"node_trace": [3]}}',
    ],
)
def test_a_location_that_makes_no_sense_says_nothing(location: str) -> None:
    graph = residual()
    buffer = dumps(graph, {n: location for n in graph.live()})
    assert all(not o.module for origins in read(buffer).values() for o in origins)
    assert dumps(loads(buffer)) == dumps(graph)
