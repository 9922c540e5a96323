"""DS-CNN (small) for keyword spotting: Zhang et al., "Hello Edge", arXiv:1711.07128; also MLPerf Tiny's KWS model.

It has one wide convolution, four depthwise-separable blocks and a global average pool.
There is almost no data movement to remove.
So it is the zoo's control, on which an optimizer must at least do no harm.

Input: (1, 1, 49, 10), 49 frames of 10 MFCCs.
Output: (1, 12) logits.
"""

from torch import nn

from benchmarks.models._blocks import classifier, conv, seeded


def ds_cnn(channels: int = 64, blocks: int = 4, classes: int = 12) -> nn.Sequential:
    stem = nn.Conv2d(1, channels, (10, 4), (2, 2), (5, 1), bias=False), nn.BatchNorm2d(channels), nn.ReLU()
    layers: list[nn.Module] = [*stem]
    for _ in range(blocks):
        layers += [conv(channels, channels, 3, groups=channels, act=nn.ReLU), conv(channels, channels, act=nn.ReLU)]
    return classifier(layers, channels, classes)


model = seeded(ds_cnn, (1, 1, 49, 10))
