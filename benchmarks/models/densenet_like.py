"""A small DenseNet-BC: Huang et al., arXiv:1608.06993.

Every layer concatenates all earlier results and then normalises.
So the BatchNorm follows a concat and precedes the ReLU, and no convolution can absorb it.
It stays a chain of per-channel pointwise operators.
The concats nest.

Input: (1, 3, 32, 32).
Output: (1, 10) logits.
"""

from torch import nn

from benchmarks.models._blocks import Joined, classifier, seeded


def norm_relu_conv(c_in: int, c_out: int, kernel: int) -> nn.Sequential:
    """Returns BatchNorm, ReLU and a convolution, in this order."""
    conv = nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(c_in), nn.ReLU(), conv)


def dense_layer(c_in: int, growth: int) -> Joined:
    """Returns a bottleneck layer that adds `growth` channels: (N, c_in, H, W) to (N, c_in + growth, H, W)."""
    body = norm_relu_conv(c_in, 4 * growth, 1), norm_relu_conv(4 * growth, growth, 3)
    return Joined([nn.Identity(), nn.Sequential(*body)])


def densenet(growth: int = 12, blocks: tuple[int, ...] = (3, 3, 3), classes: int = 10) -> nn.Sequential:
    channels = 2 * growth
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1, bias=False)]
    for i, depth in enumerate(blocks):
        if i > 0:  # A transition halves the channels, H and W.
            layers += [norm_relu_conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(depth):
            layers.append(dense_layer(channels, growth))
            channels += growth
    return classifier([*layers, nn.BatchNorm2d(channels), nn.ReLU()], channels, classes)


model = seeded(densenet, (1, 3, 32, 32))
