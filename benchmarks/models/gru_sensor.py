"""Activity recognition by one `nn.GRU` on eight samples of a sensor: Cho et al., arXiv:1406.1078.

ExecuTorch decomposes the GRU.

Input: (1, 8, 24).
Output: (1, 6) logits after the last step.
"""

from torch import nn

from benchmarks.models._blocks import seeded
from benchmarks.models.lstm_keyword import Recurrent

model = seeded(lambda: Recurrent(nn.GRU(24, 48, batch_first=True), 6), (1, 8, 24))
