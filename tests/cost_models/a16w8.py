"""A small CNN with INT16 activations, INT8 weights and INT48 sums, lowered by ExecuTorch; its largest delegates are in
`data/`.

They are made anew by: python -m tests.cost_models.a16w8
"""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def explicit(target: str) -> bytes:
    """The TOSA with explicit layout that was saved for `target`."""
    return (DATA / f"a16w8.{target}.explicit.tosa").read_bytes()


def lowered(target: str) -> bytes:
    """The same, lowered now: about ten seconds."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_a16w8_quantization_config
    from torch import nn
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from eqsat.executorch.lowering import lower_with_session
    from eqsat.options.options import Options

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 16, 3, stride=4, padding=1)
            self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
            self.pointwise = nn.Conv2d(16, 32, 1)
            self.linear = nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.first(x))
            x = x + torch.relu(self.depthwise(x))
            x = torch.relu(self.pointwise(x))
            return self.linear(torch.flatten(nn.functional.avg_pool2d(x, 8), 1))

    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 32, 32),)
    spec = EthosUCompileSpec(target)
    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_a16w8_quantization_config())
    exported = torch.export.export(Network().eval(), inputs)
    prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
    prepared(*inputs)
    program = torch.export.export(convert_pt2e(prepared), inputs)
    _, session = lower_with_session(program, spec, options=Options(preset="none", extractor="dag_greedy", rounds=1))
    return max((r.explicit for r in session.results), key=len)


if __name__ == "__main__":
    for target in TARGETS:
        (DATA / f"a16w8.{target}.explicit.tosa").write_bytes(lowered(target))
