"""Activity recognition by one `nn.GRU` on eight samples of a sensor: Cho et al., arXiv:1406.1078.

ExecuTorch decomposes the GRU.

Input: (1, 8, 24).
Output: (1, 6) logits after the last step.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


class GruSensor(nn.Module):
    def __init__(self, features: int = 24, hidden: int = 48, classes: int = 6) -> None:
        super().__init__()
        self.layer = nn.GRU(features, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x)
        return self.head(states[:, -1])


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(GruSensor, (1, 8, 24))
