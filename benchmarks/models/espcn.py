"""ESPCN, super-resolution of a single image by three: Shi et al., arXiv:1609.05158.

It has three convolutions on the small image and a sub-pixel upsampling to one channel.
PixelShuffle is a permute of the whole output with one channel innermost, the layout that suits an NPU least.

Input: (1, 1, 32, 32), luminance.
Output: (1, 1, 96, 96).
"""

from torch import nn

from benchmarks.models._blocks import seeded


def espcn(upscale: int = 3) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh()),
        *(nn.Conv2d(64, 32, 3, padding=1), nn.Tanh()),
        nn.Conv2d(32, upscale**2, 3, padding=1),
        nn.PixelShuffle(upscale),
    )


model = seeded(espcn, (1, 1, 32, 32))
