"""MobileNetV2 of width 0.35: Sandler et al., arXiv:1801.04381.

It has inverted residuals with linear bottlenecks.
Its layouts are already good.
The residual additions between tensors of different scales and the flatten in front of the classifier remain.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded

#: (expansion, output channels at width 1, repeats, stride of the first block) of each stage.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def scaled(channels: int, width: float) -> int:
    """Returns `channels * width` rounded to a multiple of 8, never down by more than a tenth."""
    rounded = max(8, int(channels * width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels * width else rounded


def conv_bn_relu6(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out), nn.ReLU6())


class InvertedResidual(nn.Module):
    """An inverted residual with a linear bottleneck: (N, c_in, H, W) to (N, c_out, H / stride, W / stride)."""

    def __init__(self, c_in: int, c_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = c_in * expansion
        self.residual = stride == 1 and c_in == c_out
        self.body = nn.Sequential(
            conv_bn_relu6(c_in, hidden, 1) if expansion > 1 else nn.Identity(),
            conv_bn_relu6(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, c_out, 1, bias=False),
            nn.BatchNorm2d(c_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self, width: float = 0.35, classes: int = 1000) -> None:
        super().__init__()
        channels = scaled(32, width)
        self.features = nn.Sequential(conv_bn_relu6(3, channels, 3, stride=2))
        for expansion, c, repeats, stride in STAGES:
            for i in range(repeats):
                self.features.append(InvertedResidual(channels, scaled(c, width), stride if i == 0 else 1, expansion))
                channels = scaled(c, width)
        self.features.append(conv_bn_relu6(channels, 1280, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(MobileNetV2, (1, 3, 96, 96))
