"""How float modules are quantized, by name."""

from __future__ import annotations

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat.executorch.loading import load_program
from eqsat.executorch.names import QUANTIZATIONS, check_quantization
from eqsat.executorch.quantize import quantize
from eqsat.ground.files import InputError


@pytest.mark.parametrize(("quantization", "activations"), zip(QUANTIZATIONS, (torch.int8, torch.int16), strict=True))
def test_activations_have_the_dtype_of_the_quantization_and_weights_int8(quantization, activations):
    torch.manual_seed(0)
    module, spec = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.ReLU()), EthosUCompileSpec("ethos-u55-128")
    program = quantize(module, (torch.randn(1, 2, 4, 4),), spec, quantization=quantization)
    ops = torch.ops.quantized_decomposed
    quantized = {n.meta["val"].dtype for n in program.graph.nodes if n.target is ops.quantize_per_tensor.default}
    per_channel = [n for n in program.graph.nodes if n.target is ops.dequantize_per_channel.default]
    weights = {n.args[0].meta["val"].dtype for n in per_channel if n.args[0].meta["val"].dim() == 4}
    assert quantized == {activations} and weights == {torch.int8}


def test_no_such_quantization_and_what_is_quantized_already():
    with pytest.raises(InputError, match="'w4a16': use int8, a16w8"):
        check_quantization("w4a16", "m.py:model")
    for file in ("m.pt2", "m.tosa"):
        with pytest.raises(InputError, match="is quantized already"):
            check_quantization("a16w8", file)
        check_quantization("int8", file)
    with pytest.raises(InputError, match="is quantized already"):
        load_program("m.pt2", EthosUCompileSpec("ethos-u55-128"), "a16w8")
