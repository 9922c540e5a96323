"""Inverted residuals of mixed kernels after MCUNet: Lin et al., arXiv:2007.10319.

Depthwise kernels of 3, 5 and 7 work on few channels; a search for 256 KiB of SRAM found them.
There is little to compute, so memory decides.

Input: (1, 3, 96, 96).
Output: (1, 10) logits.
"""

from torch import nn

from benchmarks.models._blocks import classifier, conv, inverted, seeded

#: (expansion, kernel, channels, stride) of each block.
BLOCKS = (
    (1, 3, 8, 1),
    (3, 7, 16, 2),
    (4, 3, 16, 1),
    (5, 5, 24, 2),
    (4, 3, 24, 1),
    (5, 7, 40, 2),
    (4, 5, 40, 1),
    (5, 3, 48, 1),
    (5, 7, 96, 2),
    (4, 3, 96, 1),
)


def mcunet(classes: int = 10) -> nn.Sequential:
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    channels = 16
    for expansion, kernel, c_out, stride in BLOCKS:
        layers.append(inverted(channels, expansion * channels, c_out, stride, kernel))
        channels = c_out
    return classifier([*layers, conv(channels, 160)], 160, classes)


model = seeded(mcunet, (1, 3, 96, 96))
