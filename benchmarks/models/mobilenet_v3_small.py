"""MobileNetV3-small: Howard et al., arXiv:1905.02244.

Its squeeze-and-excitation branches are a global pool, two 1x1 convolutions and a broadcast multiplication.
Hard-swish leaves long chains of pointwise integer operators with a requantization between each two.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

from torch import nn

from benchmarks.models._blocks import Residual, SqueezeExcite, conv, seeded

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


def bottleneck(
    c_in: int, kernel: int, hidden: int, c_out: int, squeeze: bool, act: type[nn.Module], stride: int
) -> nn.Sequential:
    """Returns an inverted residual, with squeeze-and-excitation if `squeeze`.

    It maps (N, c_in, H, W) to (N, c_out, H / stride, W / stride).
    """
    return (Residual if stride == 1 and c_in == c_out else nn.Sequential)(
        *([conv(c_in, hidden, act=act)] if hidden != c_in else []),
        conv(hidden, hidden, kernel, stride, hidden, act),
        *([SqueezeExcite(hidden, max(8, (hidden // 4 + 4) // 8 * 8))] if squeeze else []),
        conv(hidden, c_out, act=None),
    )


def mobilenet_v3(classes: int = 1000) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 16, 3, 2, act=nn.Hardswish)]
    channels = 16
    for block in BLOCKS:
        layers.append(bottleneck(channels, *block))
        channels = block[2]
    head = (nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes))
    last = conv(channels, 576, act=nn.Hardswish)
    return nn.Sequential(*layers, last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


model = seeded(mobilenet_v3, (1, 3, 96, 96))
