"""ResNet-8, the image classifier of MLPerf Tiny: Banbury et al., arXiv:2106.07597.

Residual networks are by He et al., arXiv:1512.03385.
It has only convolutions and three residual additions.
Like DS-CNN it is a control with little data movement to remove.

Input: (1, 3, 32, 32).
Output: (1, 10) logits.
"""

from torch import nn

from benchmarks.models._blocks import Sum, classifier, conv, seeded


def residual(c_in: int, c_out: int, stride: int) -> nn.Sequential:
    """Returns two 3x3 convolutions with a residual: (N, c_in, H, W) to (N, c_out, H / stride, W / stride)."""
    body = nn.Sequential(conv(c_in, c_out, 3, stride, act=nn.ReLU), conv(c_out, c_out, 3, act=None))
    shortcut = nn.Identity() if stride == 1 else nn.Conv2d(c_in, c_out, 1, stride)
    return nn.Sequential(Sum([body, shortcut]), nn.ReLU())


def resnet8(classes: int = 10) -> nn.Sequential:
    blocks = [residual(16, 16, 1), residual(16, 32, 2), residual(32, 64, 2)]
    return classifier([conv(3, 16, 3, act=nn.ReLU), *blocks], 64, classes)


model = seeded(resnet8, (1, 3, 32, 32))
