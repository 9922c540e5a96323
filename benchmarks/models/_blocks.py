"""What networks share: blocks, and random weights under which no layer is trivial.

An untrained network makes an optimizer look better than it is.
A BatchNorm with mean 0 and variance 1 is an identity, and a zero bias folds away.
Activations that shrink layer by layer all quantize to one value, under which any rewrite looks correct.
So the weights here, which are the same on every call, avoid these.
"""

from collections.abc import Callable
from functools import reduce
from operator import add

import torch
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


class Do(nn.Module):
    """A function of a tensor as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def mean(*dim: int) -> Do:
    """Returns a layer that gives the means over some axes."""
    return Do(lambda x: x.mean(dim))


def tokens() -> Do:
    """Returns a layer that gives the pixels of an image as tokens: (N, C, H, W) to (N, H * W, C)."""
    return Do(lambda x: x.flatten(2).transpose(1, 2))


class Joined(nn.ModuleList):
    """Layers that read one tensor, and whose results are joined along the channels."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([layer(x) for layer in self], dim=1)


class Sum(nn.ModuleList):
    """Layers that read one tensor, and whose results are added."""

    def forward(self, x: Tensor) -> Tensor:
        return reduce(add, (layer(x) for layer in self))


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


#: Makes a network and its example inputs.
Model = Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
_CONV = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)
_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d)


def seeded(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Model:
    """Returns what makes a network and its example inputs, the same on every call.

    It gives what `make` returns, in eval mode and with seeded weights, and one standard normal input per shape.
    """

    def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = make()
            for layer in module.modules():
                _initialise(layer)
            _settle_batch_norms(module, shapes)
            inputs = tuple(torch.randn(shape) for shape in shapes)
        return module.eval(), inputs

    return model


def _initialise(layer: nn.Module) -> None:
    """Draws variance-preserving weights, non-zero biases, and scales and shifts of norms that differ per channel."""
    if isinstance(layer, (*_CONV, nn.Linear)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu" if isinstance(layer, _CONV) else "linear")
        if layer.bias is not None:
            nn.init.normal_(layer.bias, std=0.1)
    elif isinstance(layer, (*_BATCH_NORM, nn.LayerNorm)):
        nn.init.uniform_(layer.weight, 0.5, 1.5)
        nn.init.normal_(layer.bias, std=0.2)


def _settle_batch_norms(module: nn.Module, shapes: tuple[tuple[int, ...], ...], batches: int = 4) -> None:
    """Sets the running statistics to those of random batches, as training would have left them."""
    norms = [layer for layer in module.modules() if isinstance(layer, _BATCH_NORM)]
    for norm in norms:
        norm.momentum = None  # The statistics become a plain average over the batches.
    if norms:
        module.train()
        with torch.no_grad():
            for _ in range(batches):
                module(*(torch.randn(shape) for shape in shapes))
