"""ResNeXt, aggregated residual transformations: Xie et al., arXiv:1611.05431.

The 3x3 convolution of each bottleneck has eight groups.
ExecuTorch lowers it to eight slices, eight thin convolutions and a concat.
None of the convolutions fills the MAC array.

Input: (1, 3, 32, 32).
Output: (1, 10) logits.
"""

from torch import nn

from benchmarks.models._blocks import Sum, classifier, conv, seeded


def bottleneck(c_in: int, width: int, c_out: int, stride: int, groups: int = 8) -> nn.Sequential:
    """Returns a bottleneck with a grouped 3x3 convolution: (N, c_in, H, W) to (N, c_out, H / stride, W / stride)."""
    layers = (
        conv(c_in, width, act=nn.ReLU),
        conv(width, width, 3, stride, groups, nn.ReLU),
        conv(width, c_out, act=None),
    )
    body = nn.Sequential(*layers)
    shortcut = nn.Identity() if (c_in, stride) == (c_out, 1) else conv(c_in, c_out, 1, stride, act=None)
    return nn.Sequential(Sum([body, shortcut]), nn.ReLU())


def resnext(classes: int = 10) -> nn.Sequential:
    first = [bottleneck(32, 32, 64, 1), bottleneck(64, 32, 64, 1)]
    second = [bottleneck(64, 64, 128, 2), bottleneck(128, 64, 128, 1)]
    return classifier([conv(3, 32, 3, act=nn.ReLU), *first, *second], 128, classes)


model = seeded(resnext, (1, 3, 32, 32))
