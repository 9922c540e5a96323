"""An export script for an Ethos-U, and the one line that eqsat changes in it.

python examples/export.py        # writes stock.pte and eqsat.pte to the working directory
"""

from pathlib import Path

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import eqsat


class Upscale(torch.nn.Module):
    """Two convolutions and a PixelShuffle: 3x32x32 to 3x64x64."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 12, 3, padding=1),
            torch.nn.PixelShuffle(2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def quantized(compile_spec: EthosUCompileSpec) -> torch.export.ExportedProgram:
    """The model in int8. Random weights and calibration data stand for yours."""
    torch.manual_seed(0)
    model, inputs = Upscale().eval(), (torch.randn(1, 3, 32, 32),)
    quantizer = EthosUQuantizer(compile_spec)
    quantizer.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


def main() -> None:
    compile_spec = EthosUCompileSpec("ethos-u85-256")
    exported_program = quantized(compile_spec)

    # before
    edge = to_edge_transform_and_lower(exported_program, partitioner=[EthosUPartitioner(compile_spec)])
    Path("stock.pte").write_bytes(edge.to_executorch().buffer)

    # after
    edge = eqsat.to_edge_transform_and_lower(exported_program, compile_spec)
    Path("eqsat.pte").write_bytes(edge.to_executorch().buffer)


if __name__ == "__main__":
    main()
