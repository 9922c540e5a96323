"""Two LSTM layers on keyword features, eight steps unrolled: Hochreiter and Schmidhuber, 1997.

They are in PyTorch's formulation.
All input projections of a layer are one product; each step then slices four gates from a sum.
So the compiler sees the recurrence unrolled.

Input: (8, 1, 40).
Output: (1, 12) logits after the last step.
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded


class LstmLayer(nn.Module):
    """An unrolled LSTM layer with an initial state of zeros: (steps, n, features) to (steps, n, hidden)."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(features, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        states: list[Tensor] = []
        cell = None
        for step in self.from_input(x).unbind(0):
            gates = step + self.from_state(states[-1]) if states else step
            enter, forget, new, leave = gates.chunk(4, dim=1)
            entering = enter.sigmoid() * new.tanh()
            cell = entering if cell is None else forget.sigmoid() * cell + entering
            states.append(leave.sigmoid() * cell.tanh())
        return torch.stack(states)


class LstmSpeech(nn.Module):
    def __init__(self, features: int = 40, hidden: int = 64, classes: int = 12) -> None:
        super().__init__()
        self.layers = nn.Sequential(LstmLayer(features, hidden), LstmLayer(hidden, hidden))
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x)[-1])


model = seeded(LstmSpeech, (8, 1, 40))
