"""Segmentation with atrous spatial pyramid pooling, DeepLabv3: Chen et al., arXiv:1706.05587.

The backbone is small and residual with output stride 8; its last stage is dilated instead of strided.
The pyramid concatenates five results of one tensor.
These are 3x3 convolutions with dilations 2, 4 and 8, a 1x1 convolution, and the mean of the image.
Dilations above 2 are no single operator on the NPU.

Input: (1, 3, 128, 128).
Output: (1, 5, 128, 128) logits.
"""

from torch import nn

from benchmarks.models._blocks import Joined, Residual, conv, seeded


def conv_relu(c_in: int, c_out: int, kernel: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    return conv(c_in, c_out, kernel, stride, act=nn.ReLU, dilation=dilation)


def residual(channels: int, dilation: int) -> nn.Sequential:
    """Returns a dilated 3x3 and a 1x1 convolution with a residual and ReLU: (N, C, H, W) to the same shape."""
    body = conv_relu(channels, channels, 3, dilation=dilation), nn.Conv2d(channels, channels, 1)
    return nn.Sequential(Residual(*body), nn.ReLU())


def atrous_pyramid(c_in: int, width: int, size: int, dilations: tuple[int, ...] = (2, 4, 8)) -> nn.Sequential:
    """Returns atrous spatial pyramid pooling: it maps (N, c_in, size, size) to (N, width, size, size)."""
    branches = [conv_relu(c_in, width, 1), *(conv_relu(c_in, width, 3, dilation=d) for d in dilations)]
    means = nn.AdaptiveAvgPool2d(1), nn.Conv2d(c_in, width, 1), nn.ReLU(), nn.Upsample(size=(size, size))
    joined = Joined([*branches, nn.Sequential(*means)])
    return nn.Sequential(joined, conv_relu((len(dilations) + 2) * width, width, 1))


def deeplab(size: int = 128, classes: int = 5) -> nn.Sequential:
    fine = conv_relu(3, 16, 3, 2), conv_relu(16, 32, 3, 2), residual(32, 1)
    coarse = conv_relu(32, 48, 3, 2), residual(48, 2), residual(48, 4)
    head = nn.Conv2d(32, classes, 1), nn.Upsample(scale_factor=8, mode="bilinear")
    return nn.Sequential(*fine, *coarse, atrous_pyramid(48, 32, size // 8), *head)


model = seeded(deeplab, (1, 3, 128, 128))
