"""Two convolutions and a sub-pixel upsampling, the core of ESPCN: Shi et al., arXiv:1609.05158.

PixelShuffle is a 6-D permute between two views, on the largest tensor of the network.
It takes nearly all cycles.

Input: (1, 3, 32, 32).
Output: (1, 3, 64, 64).
"""

from torch import nn

from benchmarks.models._blocks import seeded


def pixel_shuffle(channels: int = 32, upscale: int = 2) -> nn.Sequential:
    first, second = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, 3 * upscale**2, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.PixelShuffle(upscale))


model = seeded(pixel_shuffle, (1, 3, 32, 32))
