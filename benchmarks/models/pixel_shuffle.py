"""Two convolutions and a sub-pixel upsampling, the core of ESPCN: Shi et al., arXiv:1609.05158.

PixelShuffle is a 6-D permute between two views, on the largest tensor of the network.
It takes nearly all cycles.

Input: (1, 3, 32, 32).
Output: (1, 3, 64, 64).
"""

from torch import Tensor, nn

from benchmarks.models._seeded import seeded


class PixelShuffleNet(nn.Module):
    def __init__(self, channels: int = 32, upscale: int = 2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 3 * upscale**2, 3, padding=1),
            nn.PixelShuffle(upscale),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(PixelShuffleNet, (1, 3, 32, 32))
