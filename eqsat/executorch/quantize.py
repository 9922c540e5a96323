"""Post-training quantization of a float module for Ethos-U, by ExecuTorch's EthosUQuantizer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from eqsat.executorch.names import A16W8, INT8

_CONFIGURATIONS = {INT8: get_symmetric_quantization_config, A16W8: get_symmetric_a16w8_quantization_config}


def quantize(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    compile_spec: EthosUCompileSpec,
    calibration: Sequence[tuple[torch.Tensor, ...]] | None = None,
    quantization: str = INT8,
) -> ExportedProgram:
    """Returns the program of `module` (in eval mode), quantized and calibrated.

    calibration: batches; without them, `inputs` and 3 random batches like them are used.
    quantization: one of QUANTIZATIONS.
    """
    module = module.eval()
    quantizer = EthosUQuantizer(compile_spec)
    quantizer.set_global(_CONFIGURATIONS[quantization]())
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(check_guards=False), quantizer)
    for batch in calibration or [inputs, *(_like(inputs, seed) for seed in range(3))]:
        prepared(*batch)
    return torch.export.export(convert_pt2e(prepared), inputs)


def _like(inputs: tuple[torch.Tensor, ...], seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(x.shape, generator=generator, dtype=x.dtype) if x.is_floating_point() else x for x in inputs
    )
