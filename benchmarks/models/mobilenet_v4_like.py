"""A small classifier after MobileNetV4-Conv-Small, shortened, at 128 px: Qin et al., arXiv:2404.10518.

Its universal inverted bottlenecks have depthwise convolutions before the expansion, in its middle, at both or none.
The stem has plain convolutions and most of the multiplications.

Input: (1, 3, 128, 128).
Output: (1, 100) logits.
"""

from torch import nn

from benchmarks.models._blocks import Residual, classifier, conv, seeded

#: (kernel before the expansion, kernel in the middle, hidden channels, output channels, stride) of each block.
#: A kernel of 0 means no depthwise convolution there.
BLOCKS = (
    (5, 5, 96, 96, 2),
    (0, 3, 192, 96, 1),
    (3, 0, 384, 96, 1),
    (3, 3, 576, 128, 2),
    (5, 5, 512, 128, 1),
    (0, 5, 512, 128, 1),
    (0, 0, 256, 128, 1),
)


def universal_bottleneck(c_in: int, front: int, middle: int, hidden: int, c_out: int, stride: int) -> nn.Sequential:
    """Returns a universal inverted bottleneck: (N, c_in, H, W) to (N, c_out, H / stride, W / stride)."""
    first = 1 if middle else stride
    return (Residual if stride == 1 and c_in == c_out else nn.Sequential)(
        *([conv(c_in, c_in, front, first, c_in, act=None)] if front else []),
        conv(c_in, hidden),
        *([conv(hidden, hidden, middle, stride, hidden)] if middle else []),
        conv(hidden, c_out, act=None),
    )


def mobilenet_v4(classes: int = 100) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 32, 3, 2), conv(32, 32, 3, 2), conv(32, 32), conv(32, 96, 3, 2), conv(96, 64)]
    channels = 64
    for front, middle, hidden, c_out, stride in BLOCKS:
        layers.append(universal_bottleneck(channels, front, middle, hidden, c_out, stride))
        channels = c_out
    return classifier([*layers, conv(channels, 480)], 480, classes)


model = seeded(mobilenet_v4, (1, 3, 128, 128))
