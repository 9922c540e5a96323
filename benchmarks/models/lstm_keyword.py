"""Keyword spotting by one `nn.LSTM` on eight frames: Hochreiter and Schmidhuber, 1997.

ExecuTorch decomposes the LSTM.
Each step multiplies its frame and its state by matrices that all steps share.

Input: (1, 8, 40).
Output: (1, 12) logits after the last step.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


class LstmKeyword(nn.Module):
    def __init__(self, features: int = 40, hidden: int = 64, classes: int = 12) -> None:
        super().__init__()
        self.layer = nn.LSTM(features, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x)
        return self.head(states[:, -1])


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(LstmKeyword, (1, 8, 40))
