"""Locations of operators: written, read, and of no effect on anything else."""

from __future__ import annotations

import json

import pytest

from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tosa import dumps, loads
from eqsat.tosa.flatbuffer import list_names, tensor_names
from eqsat.tosa.locations import Origin, parse, read, text, union
from eqsat.vela.compile import compile_tosa
from tests.graphs import operators, residual
from tests.term import inputs, outputs

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
    """A small file may stand for an endless one: parts of a flatbuffer may be shared, as strings are that are written
    once."""
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
    assert all(not o.module for origins in read(buffer).values() for o in origins) and dumps(loads(buffer)) == dumps(
        graph
    )
