"""Convolutions with batch normalisation, and the inverted residual block: Sandler et al., arXiv:1801.04381.

Many small networks consist of them.
"""

from torch import Tensor, nn


def conv(c_in: int, c_out: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    """Returns a convolution padded by kernel // 2 with BatchNorm, and with ReLU6 if `act`."""
    layers = [nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(c_out)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if act else []))


class Inverted(nn.Module):
    """An inverted residual: a 1x1 expansion, a depthwise convolution and a linear 1x1 convolution.

    It maps (N, c_in, H, W) to (N, c_out, H / stride, W / stride).
    It has no expansion if hidden is c_in, and adds its input if that has the shape of the result.
    """

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
    """Returns a network of features, their means over the image, and a linear layer.

    channels: of the last features.
    """
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
