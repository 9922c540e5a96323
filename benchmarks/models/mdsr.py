"""MDSR, super-resolution by three and by four at once: Lim et al., arXiv:1707.02921.

Two heads read one residual body.
Each head is a convolution to 9 or 16 times the channels of the image, PixelShuffle, and another convolution.
The latter has three channels, far too few to fill the MAC array.

Input: (1, 3, 32, 32).
Outputs: (1, 3, 96, 96) and (1, 3, 128, 128).
"""

from torch import Tensor, nn

from benchmarks.models._blocks import Residual, seeded


def conv(c_in: int, c_out: int) -> nn.Conv2d:
    return nn.Conv2d(c_in, c_out, 3, padding=1)


def residual(channels: int) -> Residual:
    """Returns two convolutions with a residual: (N, C, H, W) to the same shape."""
    return Residual(conv(channels, channels), nn.ReLU(), conv(channels, channels))


class Mdsr(nn.Module):
    def __init__(self, channels: int = 16, blocks: int = 2, scales: tuple[int, ...] = (3, 4)) -> None:
        super().__init__()
        self.stem = conv(3, channels)
        self.body = nn.Sequential(*map(residual, [channels] * blocks), conv(channels, channels))
        self.heads = nn.ModuleList(
            nn.Sequential(conv(channels, 3 * scale**2), nn.PixelShuffle(scale), conv(3, 3)) for scale in scales
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.stem(x)
        x = x + self.body(x)
        return tuple(head(x) for head in self.heads)


model = seeded(Mdsr, (1, 3, 32, 32))
