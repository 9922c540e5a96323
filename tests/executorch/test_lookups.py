"""The short ways of passes return what PyTorch's functions do."""

from collections import namedtuple
from contextlib import nullcontext

import pytest
import torch
from executorch.backends.arm.tosa.dialect.lib import TosaValueError
from executorch.backends.arm.tosa.specification import TosaLoweringContext, TosaSpecification
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass
from torch._subclasses import FakeTensorMode
from torch.fx import Proxy
from torch.fx.immutable_collections import immutable_list

from eqsat.executorch.bookkeeping import less_bookkeeping

_Pair = namedtuple("_Pair", "a b")


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
