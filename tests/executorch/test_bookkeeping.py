"""Lowering without PyTorch's bookkeeping: the same result, by short ways that return the same; nothing of it stays."""

import copy
import gc
import inspect
import operator
import pickle
from collections import OrderedDict, namedtuple
from contextlib import nullcontext

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.tosa.dialect.lib import TosaValueError
from executorch.backends.arm.tosa.specification import TosaLoweringContext, TosaSpecification
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass
from torch._export.utils import _collect_all_valid_cia_ops
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Proxy, symbolic_trace
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.traceback import NodeSource
from torch.utils import _pytree as pytree

from eqsat.executorch import bookkeeping
from eqsat.executorch.bookkeeping import less_bookkeeping
from eqsat.executorch.loading import quantize


def _state() -> tuple[object, ...]:
    return gc.get_threshold(), gc.get_freeze_count() > 0, "__deepcopy__" in vars(NodeSource)


@pytest.mark.parametrize("error", [None, ValueError])
def test_leaves_the_process_as_it_was(error):
    before = _state()
    with pytest.raises(error) if error else nullcontext(), less_bookkeeping():
        inside = _state()
        assert inside != before
        with less_bookkeeping():
            assert _state() == inside
        assert _state() == inside
        if error:
            raise error
    assert _state() == before


def test_a_collector_that_is_switched_off_stays_off():
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with less_bookkeeping():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_code_that_is_read_is_there():
    def twice(x, y=2):
        return x * y + 1

    eager = symbolic_trace(twice)
    with less_bookkeeping():
        read, unread = symbolic_trace(twice), symbolic_trace(twice)
        assert inspect.signature(read.forward) == inspect.signature(eager.forward)
        assert symbolic_trace(twice).code == eager.code
        assert str(symbolic_trace(twice)) == str(eager)
        assert symbolic_trace(twice)(3) == pickle.loads(pickle.dumps(symbolic_trace(twice)))(3) == 7
        for node in read.graph.nodes:
            if node.target is operator.add:
                node.args = (node.args[0], 5)
        assert read(3) == 7, "as ever, a change of the graph is not in force before recompile"
        read.recompile()
        assert "+ 5" not in eager.code and "+ 5" in read.code and read(3) == 11
        left = symbolic_trace(twice)
    assert "_code" not in vars(unread), "what nobody reads is not written at the end"
    assert unread._code == eager._code and unread(3) == 7
    assert pickle.loads(pickle.dumps(left))(3) == copy.deepcopy(left)(3) == left(3) == 7
    assert left._prologue_start == eager._prologue_start


def test_a_class_of_the_callers_is_pickled_in_its_own_way():
    class Own(GraphModule):
        def __reduce__(self):
            return int, (7,)

    with less_bookkeeping():
        inside = Own(torch.nn.Module(), symbolic_trace(torch.nn.ReLU()).graph)
        assert pickle.loads(pickle.dumps(inside)) == 7
    assert pickle.loads(pickle.dumps(inside)) == 7


def test_another_pytorch_keeps_its_bookkeeping(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.14.0")
    before = _replaced()
    with less_bookkeeping():
        assert _replaced() == before


def _replaced() -> list[object]:
    return [inspect.getattr_static(where, name, None) for where, name, _ in bookkeeping._replacements()]


def test_operators_that_are_registered_meanwhile_are_collected():
    with less_bookkeeping():
        before = _collect_all_valid_cia_ops()
        with torch.library._scoped_library("registered_meanwhile", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
            after = _collect_all_valid_cia_ops()
    assert {str(op) for op in after - before} == {"registered_meanwhile.twice.default"}


@pytest.mark.slow
def test_program_and_histories_are_the_same():
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU(), torch.nn.AvgPool2d(2)).eval()
    spec = EthosUCompileSpec("ethos-u55-128")
    program = quantize(model, (torch.ones(1, 4, 16, 16),), spec)

    def lowered():
        edge = stock_lowering(copy.deepcopy(program), partitioner=[EthosUPartitioner(spec)])
        nodes = edge.exported_program().graph.nodes
        histories = [[_named(s.to_dict()) for s in n.meta.get("from_node", [])] for n in nodes]
        return edge.to_executorch().buffer, histories

    buffer, histories = lowered()
    with less_bookkeeping():
        again = lowered()
    assert any(histories), "there are histories to compare"
    assert again == (buffer, histories)


def _named(source: dict) -> dict:
    """Without the numbers of graphs, which are addresses."""
    return {k: v if k != "from_node" else [_named(s) for s in v] for k, v in source.items() if k != "graph_id"}


_Pair = namedtuple("_Pair", "a b")
_TREES = (
    3,
    None,
    (1, [2, None], {"b": 3, "a": (4, {})}, ()),
    _Pair(1, [2, _Pair(3, 4)]),
    [OrderedDict(b=1, a=2), immutable_list([1, 2]), immutable_dict({"a": [1]}), torch.Size([2, 3]), slice(1, 2)],
)


@pytest.mark.parametrize("tree", _TREES)
def test_trees_are_mapped_alike(tree):
    def mapped(*rests, **kwargs):
        seen = []
        out = pytree.tree_map(lambda x, *_: seen.append(x) or (x, "leaf"), tree, *rests, **kwargs)
        return seen, out, str(pytree.tree_structure(out)), pytree.tree_map_only(int, lambda x: -x, tree)

    ways = ({}, {"is_leaf": lambda x: isinstance(x, list)})
    expected = [*(mapped(**w) for w in ways), mapped(tree)]
    with less_bookkeeping():
        assert [*(mapped(**w) for w in ways), mapped(tree)] == expected


def test_arguments_of_nodes_are_alike():
    class Other(Proxy):
        pass

    def arguments():
        tracer = ExportPass.ExportTracer(ExportPass(), torch.fx.graph.CodeGen())
        tracer.fake_tensor_mode = FakeTensorMode(allow_non_fake_inputs=True)
        proxy = tracer.create_proxy("placeholder", "x", (), {})
        one, part = torch.ones(2), slice(Other(proxy.node), None)
        given = (
            *(1, 1.5, True, "a", None, ..., 1j, torch.int8, torch.strided, torch.device("cpu"), torch.channels_last),
            *(torch.ops.aten.add.Tensor, proxy, [proxy, [1, (proxy,)]], immutable_list([1, proxy]), {"a": proxy}),
            *(_Pair(1, 2), part, one, torch.nn.Parameter(one), torch.nn.ReLU()),
        )
        return [(type(a), str(a)) for a in map(tracer.create_arg, given)], str(tracer.graph)

    expected = arguments()
    with less_bookkeeping():
        assert arguments() == expected


def test_outputs_of_quantized_operators_are_known():
    quantized = torch.ops.quantized_decomposed.quantize_per_tensor.default
    mode = FakeTensorMode()
    with mode:
        x = torch.empty(1, 3, 4, 5).permute(0, 2, 3, 1)

        def outputs():
            found = [quantized(x, 0.1, zero, -128, 127, dtype) for zero in (0, 0, 3) for dtype in (torch.int8,) * 2]
            return [(y.shape, y.stride(), y.dtype, y is not x) for y in found]

        expected = outputs()
        hits = FakeTensorMode.cache_hits
        with less_bookkeeping():
            assert outputs() == expected
        assert FakeTensorMode.cache_hits - hits == 4
        hits = FakeTensorMode.cache_hits
        outputs()
        assert FakeTensorMode.cache_hits == hits, "nothing of it stays"


@pytest.mark.parametrize("first", ["TOSA-1.0+FP", "TOSA-1.0+INT"])
def test_what_one_specification_allows_another_may_not(first):
    def add(specification):
        with TosaLoweringContext(TosaSpecification.create_from_string(specification)):
            allowed = specification.endswith("FP")
            with nullcontext() if allowed else pytest.raises(TosaValueError):
                assert ops.backend.tosa.MATMUL.default(x, x).shape == (1, 2, 2)

    with less_bookkeeping(), FakeTensorMode():
        x = torch.empty(1, 2, 2)
        for specification in (first, first, "TOSA-1.0+INT", "TOSA-1.0+FP"):
            add(specification)
