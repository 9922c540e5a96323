"""Blocks that many small networks consist of: convolutions with batch normalisation, residuals and their like."""

from torch import Tensor, nn


def conv(
    c_in: int,
    c_out: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    act: type[nn.Module] | None = nn.ReLU6,
    dilation: int = 1,
) -> nn.Sequential:
    """Returns a convolution padded to keep the size at stride 1, with BatchNorm and an activation, if there is one."""
    pad = kernel // 2 * dilation
    layers = [nn.Conv2d(c_in, c_out, kernel, stride, pad, dilation, groups, bias=False), nn.BatchNorm2d(c_out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Sequential):
    """Layers whose result, of the shape of their input, is added to it."""

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class Shortcut(nn.Module):
    """ReLU of the sum of two ways: He et al., arXiv:1512.03385."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.shortcut(x)).relu()


class SqueezeExcite(nn.Module):
    """Squeeze-and-excitation, a gate per channel from the mean over the image: Hu et al., arXiv:1709.01507."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            *(nn.Conv2d(channels, squeezed, 1), nn.ReLU()),
            *(nn.Conv2d(squeezed, channels, 1), nn.Hardsigmoid()),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def inverted(c_in: int, hidden: int, c_out: int, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    """Returns a 1x1 expansion, a depthwise convolution and a linear 1x1 convolution: Sandler et al., arXiv:1801.04381.

    They map (N, c_in, H, W) to (N, c_out, H / stride, W / stride).
    There is no expansion if hidden is c_in; the input is added if it has the shape of the result.
    """
    return (Residual if stride == 1 and c_in == c_out else nn.Sequential)(
        *([conv(c_in, hidden)] if hidden != c_in else []),
        conv(hidden, hidden, kernel, stride, hidden),
        conv(hidden, c_out, act=None),
    )


def classifier(features: list[nn.Module], channels: int, classes: int) -> nn.Sequential:
    """Returns a network of features, their means over the image, and a linear layer.

    channels: of the last features.
    """
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
