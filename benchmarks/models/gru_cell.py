"""A gated recurrent unit with four steps unrolled: Cho et al., arXiv:1406.1078, in PyTorch's formulation.

The input projections of all steps are one matrix product, sliced by step and by gate.
Every step adds slices of a second product.
The outputs are stacked, and the last state is an output of its own.
So there are many small slices, and pointwise chains through sigmoid and tanh between tensors of different scales.

Inputs: (4, 1, 32), four steps of 32 features, and the state (1, 48).
Outputs: (4, 1, 48) and the new state (1, 48).
"""

import torch
from torch import Tensor, nn

from benchmarks.models._blocks import seeded


class GruCell(nn.Module):
    """A gated recurrent unit of (n, features) with states (n, hidden)."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(features, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def step(self, from_input: Tensor, state: Tensor) -> Tensor:
        """Returns the new state, given the projection of the input."""
        x_reset, x_update, x_new = from_input.chunk(3, dim=1)
        h_reset, h_update, h_new = self.from_state(state).chunk(3, dim=1)
        reset, update = (x_reset + h_reset).sigmoid(), (x_update + h_update).sigmoid()
        new = (x_new + reset * h_new).tanh()
        return new + update * (state - new)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return self.step(self.from_input(x), state)


class Gru(GruCell):
    """The unit over the steps of a sequence: it gives all states, and the last one."""

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        states = []
        for step in self.from_input(x).unbind(0):
            state = self.step(step, state)
            states.append(state)
        return torch.stack(states), state


model = seeded(lambda: Gru(32, 48), (4, 1, 32), (1, 48))
