"""MobileNetV3-small: Howard et al., arXiv:1905.02244.

Its squeeze-and-excitation branches are a global pool, two 1x1 convolutions and a broadcast multiplication.
Hard-swish leaves long chains of pointwise integer operators with a requantization between each two.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded

#: (kernel, hidden channels, output channels, squeeze-and-excitation, activation, stride) of each bottleneck.
BLOCKS = (
    (3, 16, 16, True, nn.ReLU, 2),
    (3, 72, 24, False, nn.ReLU, 2),
    (3, 88, 24, False, nn.ReLU, 1),
    (5, 96, 40, True, nn.Hardswish, 2),
    (5, 240, 40, True, nn.Hardswish, 1),
    (5, 240, 40, True, nn.Hardswish, 1),
    (5, 120, 48, True, nn.Hardswish, 1),
    (5, 144, 48, True, nn.Hardswish, 1),
    (5, 288, 96, True, nn.Hardswish, 2),
    (5, 576, 96, True, nn.Hardswish, 1),
    (5, 576, 96, True, nn.Hardswish, 1),
)


def conv_bn(
    c_in: int, c_out: int, kernel: int, activation: type[nn.Module] = nn.Identity, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out), activation())


class SqueezeExcite(nn.Module):
    """Squeeze-and-excitation, a gate per channel from the mean over the image: Hu et al., arXiv:1709.01507."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(8, (channels // 4 + 4) // 8 * 8)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class Bottleneck(nn.Module):
    """An inverted residual, with squeeze-and-excitation if `squeeze`.

    It maps (N, c_in, H, W) to (N, c_out, H / stride, W / stride).
    """

    def __init__(
        self, c_in: int, kernel: int, hidden: int, c_out: int, squeeze: bool, activation: type[nn.Module], stride: int
    ) -> None:
        super().__init__()
        self.residual = stride == 1 and c_in == c_out
        self.body = nn.Sequential(
            conv_bn(c_in, hidden, 1, activation) if hidden != c_in else nn.Identity(),
            conv_bn(hidden, hidden, kernel, activation, stride, groups=hidden),
            SqueezeExcite(hidden) if squeeze else nn.Identity(),
            conv_bn(hidden, c_out, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV3Small(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(conv_bn(3, 16, 3, nn.Hardswish, stride=2))
        channels = 16
        for block in BLOCKS:
            self.features.append(Bottleneck(channels, *block))
            channels = block[2]
        self.features.append(conv_bn(channels, 576, 1, nn.Hardswish))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(MobileNetV3Small, (1, 3, 96, 96))
