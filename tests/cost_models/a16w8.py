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
    from torch import nn

    from eqsat.executorch.loading import quantize
    from eqsat.executorch.lowering import lower_with_session
    from eqsat.executorch.names import A16W8
    from eqsat.options.options import Options
    from tests.networks import Network

    def made(self: Network, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.pointwise(x + torch.relu(self.depthwise(x))))
        return self.linear(torch.flatten(nn.functional.avg_pool2d(x, 8), 1))

    torch.manual_seed(0)
    inputs, spec = (torch.randn(1, 3, 32, 32),), EthosUCompileSpec(target)
    parts = {
        "first": nn.Conv2d(3, 16, 3, stride=4, padding=1),
        "depthwise": nn.Conv2d(16, 16, 3, padding=1, groups=16),
        "pointwise": nn.Conv2d(16, 32, 1),
        "linear": nn.Linear(32, 10),
    }
    program = quantize(Network(made, **parts), inputs, spec, [inputs], A16W8)
    _, session = lower_with_session(program, spec, options=Options(preset="none", extractor="dag_greedy", rounds=1))
    return max((r.explicit for r in session.results), key=len)


if __name__ == "__main__":
    for target in TARGETS:
        (DATA / f"a16w8.{target}.explicit.tosa").write_bytes(lowered(target))
