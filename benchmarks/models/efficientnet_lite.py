"""EfficientNet-Lite0 of half the depth, at 128 px: Tan and Le, arXiv:1905.11946.

The Lite variant is Google's for integer accelerators, without squeeze-and-excitation.
Its inverted residuals have kernels of 3 and 5, and ReLU6.
Vendors ship this classifier for such NPUs.

Input: (1, 3, 128, 128).
Output: (1, 100) logits.
"""

from torch import nn

from benchmarks.models._blocks import classifier, conv, inverted, seeded

#: (expansion, kernel, channels, stride, depth) of each stage.
STAGES = ((1, 3, 16, 1, 1), (6, 3, 24, 2, 1), (6, 5, 40, 2, 1), (6, 3, 80, 2, 2), (6, 5, 112, 1, 2), (6, 5, 192, 2, 2))


def efficientnet_lite(classes: int = 100) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 32, 3, 2)]
    channels = 32
    for expansion, kernel, c_out, stride, depth in STAGES:
        for i in range(depth):
            layers.append(inverted(channels, expansion * channels, c_out, stride if i == 0 else 1, kernel))
            channels = c_out
    return classifier([*layers, conv(channels, 640)], 640, classes)


model = seeded(efficientnet_lite, (1, 3, 128, 128))
