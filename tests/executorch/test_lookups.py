"""The short ways of passes return what PyTorch's functions do."""

from collections import OrderedDict, namedtuple
from contextlib import nullcontext

import pytest
import torch
from executorch.backends.arm.tosa.dialect.lib import TosaValueError
from executorch.backends.arm.tosa.specification import TosaLoweringContext, TosaSpecification
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass
from torch._subclasses import FakeTensorMode
from torch.fx import Proxy
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from eqsat.executorch.bookkeeping import less_bookkeeping

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
        given = (
            *(1, 1.5, True, "a", None, ..., 1j, torch.int8, torch.strided, torch.device("cpu"), torch.channels_last),
            *(torch.ops.aten.add.Tensor, proxy, [proxy, [1, (proxy,)]], immutable_list([1, proxy]), {"a": proxy}),
            *(
                _Pair(1, 2),
                slice(Other(proxy.node), None),
                torch.ones(2),
                torch.nn.Parameter(torch.ones(2)),
                torch.nn.ReLU(),
            ),
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
