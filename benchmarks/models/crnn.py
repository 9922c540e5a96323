"""Text recognition in images after CRNN: Shi et al., arXiv:1507.05717.

Convolutions reduce the height to one, then a bidirectional `nn.LSTM` reads the columns.

Input: (1, 1, 16, 32), a grey image.
Output: (1, 8, 37) logits, 37 for each of eight columns.
"""

from torch import Tensor, nn

from benchmarks.models._blocks import conv, seeded


class Crnn(nn.Module):
    def __init__(self, hidden: int = 32, classes: int = 37) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(conv(1, 16, 3, act=nn.ReLU), nn.MaxPool2d(2)),
            *(conv(16, 32, 3, act=nn.ReLU), nn.MaxPool2d(2)),
            *(conv(32, 48, 3, act=nn.ReLU), nn.MaxPool2d((4, 1))),
        )
        self.layer = nn.LSTM(48, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.features(x).squeeze(2).transpose(1, 2)
        states, _ = self.layer(columns)
        return self.head(states)


model = seeded(Crnn, (1, 1, 16, 32))
