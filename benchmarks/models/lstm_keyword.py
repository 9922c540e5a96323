"""Keyword spotting by one `nn.LSTM` on eight frames: Hochreiter and Schmidhuber, 1997.

ExecuTorch decomposes the LSTM.
Each step multiplies its frame and its state by matrices that all steps share.

Input: (1, 8, 40).
Output: (1, 12) logits after the last step.
"""

from torch import Tensor, nn

from benchmarks.models._blocks import seeded


class Recurrent(nn.Module):
    """A recurrent layer and a linear one on its last state: (1, steps, features) to (1, classes)."""

    def __init__(self, layer: nn.RNNBase, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(layer.hidden_size, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x)
        return self.head(states[:, -1])


model = seeded(lambda: Recurrent(nn.LSTM(40, 64, batch_first=True), 12), (1, 8, 40))
