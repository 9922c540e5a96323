"""Convolutions with norms, and the inverted residual of many small networks: Sandler et al., arXiv:1801.04381."""

from torch import Tensor, nn


def conv(c_in: int, c_out: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    """With BatchNorm, and ReLU6 if `act`."""
    layers = [nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(c_out)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if act else []))


class Inverted(nn.Module):
    def __init__(self, c_in: int, hidden: int, c_out: int, stride: int = 1, kernel: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(c_in, hidden) if hidden != c_in else nn.Identity(),
            conv(hidden, hidden, kernel, stride, hidden),
            conv(hidden, c_out, act=False),
        )
        self.adds = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def classifier(features: list[nn.Module], channels: int, classes: int) -> nn.Sequential:
    """Features of so many channels, their means over the image, and a linear layer."""
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
