"""Networks of the sizes in their papers, to measure time and memory.

They are not in the zoo, since all networks of the zoo are run together.
DenseNet-121 at 224 x 224: Huang et al., arXiv:1608.06993.
DeiT-tiny, a vision transformer of 12 blocks, at 224 x 224: Touvron et al., arXiv:2012.12877.
MobileViT-XXS at 256 x 256: Mehta and Rastegari, arXiv:2110.02178.
"""

from functools import partial

from torch import nn

from benchmarks.models._blocks import conv, inverted, seeded
from benchmarks.models.densenet_like import densenet
from benchmarks.models.mobilevit_block import MobileViTBlock
from benchmarks.models.vit import VisionTransformer

#: Of each stage: (output channels, stride) of its inverted residuals, and (width, depth) of its transformers.
#: The first stage has no transformers.
MOBILEVIT_XXS = (
    (((16, 1), (24, 2), (24, 1), (24, 1)), None),
    (((48, 2),), (64, 2)),
    (((64, 2),), (80, 4)),
    (((80, 2),), (96, 3)),
)


def _densenet_121() -> nn.Module:
    net = densenet(growth=32, blocks=(6, 12, 24, 16), classes=1000)
    net[0] = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return net


def _mobilevit_xxs() -> nn.Module:
    channels = 16
    net = nn.Sequential(conv(3, channels, 3, 2, act=nn.SiLU))
    for convolutions, transformers in MOBILEVIT_XXS:
        for c, stride in convolutions:
            net.append(inverted(channels, 2 * channels, c, stride))
            channels = c
        if transformers:
            dim, depth = transformers
            net.append(MobileViTBlock(channels, dim, depth=depth))
    return net.extend([conv(channels, 320, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(320, 1000)])


densenet_121 = seeded(_densenet_121, (1, 3, 224, 224))


vit_12 = seeded(partial(VisionTransformer, blocks=12, classes=1000), (1, 3, 224, 224))


mobilevit_xxs = seeded(_mobilevit_xxs, (1, 3, 256, 256))
