"""EfficientNet-Lite0, trimmed: Tan and Le, arXiv:1905.11946, in Google's variant for integer accelerators, without squeeze and excitation.

Inverted residuals with kernels of 5 and ReLU6, of half the depth and at 128 px: the classifier that vendors ship for such NPUs.

Input: (1, 3, 128, 128). Output: (1, 100) logits.
"""

from torch import Tensor, nn

from benchmarks.models._inverted import Inverted, conv
from benchmarks.models._seeded import seeded

#: (expansion, kernel, channels, stride, depth) of each stage.
STAGES = ((1, 3, 16, 1, 1), (6, 3, 24, 2, 1), (6, 5, 40, 2, 1), (6, 3, 80, 2, 2), (6, 5, 112, 1, 2), (6, 5, 192, 2, 2))


class EfficientNetLite(nn.Module):
    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv(3, 32, 3, 2)]
        channels = 32
        for expansion, kernel, c_out, stride, depth in STAGES:
            for i in range(depth):
                layers.append(Inverted(channels, expansion * channels, c_out, stride if i == 0 else 1, kernel))
                channels = c_out
        self.features = nn.Sequential(*layers, conv(channels, 640), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(640, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(EfficientNetLite, (1, 3, 128, 128))
