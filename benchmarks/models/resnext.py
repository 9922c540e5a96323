"""ResNeXt, aggregated residual transformations: Xie et al., arXiv:1611.05431.

The 3x3 convolution of each bottleneck has eight groups.
ExecuTorch lowers it to eight slices, eight thin convolutions and a concat.
None of the convolutions fills the MAC array.

Input: (1, 3, 32, 32).
Output: (1, 10) logits.
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


def conv_bn(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out))


class Bottleneck(nn.Module):
    """A bottleneck with a grouped 3x3 convolution: (N, c_in, H, W) to (N, c_out, H / stride, W / stride)."""

    def __init__(self, c_in: int, width: int, c_out: int, stride: int, groups: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(c_in, width, 1),
            nn.ReLU(),
            conv_bn(width, width, 3, stride, groups),
            nn.ReLU(),
            conv_bn(width, c_out, 1),
        )
        self.shortcut = nn.Identity() if (c_in, stride) == (c_out, 1) else conv_bn(c_in, c_out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.shortcut(x)).relu()


class ResNeXt(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 32, 3),
            nn.ReLU(),
            Bottleneck(32, 32, 64, 1),
            Bottleneck(64, 32, 64, 1),
            Bottleneck(64, 64, 128, 2),
            Bottleneck(128, 64, 128, 1),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(ResNeXt, (1, 3, 32, 32))
