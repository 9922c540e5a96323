"""ResNet-8, the image classifier of MLPerf Tiny: Banbury et al., arXiv:2106.07597.

Residual networks are by He et al., arXiv:1512.03385.
It has only convolutions and three residual additions.
Like DS-CNN it is a control with little data movement to remove.

Input: (1, 3, 32, 32).
Output: (1, 10) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


def conv_bn(c_in: int, c_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm2d(c_out))


class Residual(nn.Module):
    """Two 3x3 convolutions with a residual: (N, c_in, H, W) to (N, c_out, H / stride, W / stride)."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv_bn(c_in, c_out, stride), nn.ReLU(), conv_bn(c_out, c_out))
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(c_in, c_out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.shortcut(x)).relu()


class ResNet8(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 16), nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(ResNet8, (1, 3, 32, 32))
