"""GhostNet 0.5: Han et al., arXiv:1911.11907.

A ghost module computes half of its channels by a 1x1 convolution.
It computes the other half from those by a cheap depthwise convolution, and concatenates both.
So one producer has two readers, every second layer is a channel concat, and residuals cross them.

Input: (1, 3, 96, 96).
Output: (1, 1000) logits.
"""

from torch import nn

from benchmarks.models._blocks import Joined, SqueezeExcite, Sum, conv, seeded

#: Factor of the channels in the paper.
WIDTH = 0.5
#: (kernel, hidden channels, output channels, squeeze-and-excitation, stride) of each bottleneck, at width 1.
BLOCKS = (
    (3, 16, 16, False, 1),
    (3, 48, 24, False, 2),
    (3, 72, 24, False, 1),
    (5, 72, 40, True, 2),
    (5, 120, 40, True, 1),
    (3, 240, 80, False, 2),
    (3, 200, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 480, 112, True, 1),
    (3, 672, 112, True, 1),
    (5, 672, 160, True, 2),
    (5, 960, 160, False, 1),
    (5, 960, 160, True, 1),
    (5, 960, 160, False, 1),
    (5, 960, 160, True, 1),
)


def scaled(channels: int) -> int:
    """Returns channels times WIDTH, rounded to a multiple of 4, at least 4."""
    return max(4, int(channels * WIDTH + 2) // 4 * 4)


def ghost(c_in: int, c_out: int, act: type[nn.Module] | None) -> nn.Sequential:
    """Returns a ghost module: it maps (N, c_in, H, W) to (N, c_out, H, W)."""
    half = c_out // 2
    primary, cheap = conv(c_in, half, act=act), conv(half, half, 3, groups=half, act=act)
    return nn.Sequential(primary, Joined([nn.Identity(), cheap]))


def ghost_bottleneck(c_in: int, kernel: int, hidden: int, c_out: int, squeeze: bool, stride: int) -> Sum:
    """Returns two ghost modules with a strided depthwise convolution between, and a shortcut."""
    body = nn.Sequential(
        ghost(c_in, hidden, nn.ReLU),
        *([conv(hidden, hidden, kernel, stride, hidden, None)] if stride > 1 else []),
        *([SqueezeExcite(hidden, scaled(hidden // 2))] if squeeze else []),
        ghost(hidden, c_out, None),
    )
    same = stride == 1 and c_in == c_out
    ways = () if same else (conv(c_in, c_in, kernel, stride, c_in, None), conv(c_in, c_out, act=None))
    return Sum([body, nn.Sequential(*ways)])


def ghostnet(classes: int = 1000) -> nn.Sequential:
    channels = scaled(16)
    layers: list[nn.Module] = [conv(3, channels, 3, 2, act=nn.ReLU)]
    for kernel, hidden, c_out, squeeze, stride in BLOCKS:
        layers.append(ghost_bottleneck(channels, kernel, scaled(hidden), scaled(c_out), squeeze, stride))
        channels = scaled(c_out)
    head = (nn.Linear(scaled(960), 1280), nn.ReLU(), nn.Linear(1280, classes))
    last = conv(channels, scaled(960), act=nn.ReLU)
    return nn.Sequential(*layers, last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


model = seeded(ghostnet, (1, 3, 96, 96))
