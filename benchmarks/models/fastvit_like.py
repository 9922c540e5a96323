"""A hybrid of convolutions and attention after FastViT: Vasu et al., arXiv:2303.14189.

It has the form in which it is deployed, with merged branches, at 64 px.
One depthwise convolution mixes the tokens; the residual sum is merged into its weights.
Feed-forward blocks begin with a depthwise convolution of 7x7.
The last stage has attention over the positions of the image.

Input: (1, 3, 64, 64).
Output: (1, 100) logits.
"""

from torch import Tensor, nn

from benchmarks.models._blocks import Residual, classifier, seeded


def conv(c_in: int, c_out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups)


def feed_forward(channels: int) -> Residual:
    """Returns a depthwise 7x7 convolution and an MLP of 1x1 convolutions, with a residual: (N, C, H, W)."""
    mlp = conv(channels, 3 * channels), nn.GELU(), conv(3 * channels, channels)
    return Residual(conv(channels, channels, 7, 1, channels), *mlp)


class Attention(nn.Module):
    """Self-attention over the positions of an image, with a residual: (N, C, H, W) to the same shape."""

    def __init__(self, channels: int, head: int = 32) -> None:
        super().__init__()
        self.heads, self.head = channels // head, head
        self.norm = nn.BatchNorm2d(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels, bias=False), nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        query, key, value = self.qkv(tokens).view(n, h * w, 3, self.heads, self.head).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (query * self.head**-0.5 @ key.transpose(-1, -2)).softmax(dim=-1)
        mixed = self.out((weights @ value).transpose(1, 2).reshape(n, h * w, c))
        return x + mixed.transpose(1, 2).reshape(n, c, h, w)


def embedding(c_in: int, c_out: int) -> nn.Sequential:
    """Returns a patch embedding that halves the resolution."""
    return nn.Sequential(conv(c_in, c_out, 7, 2, c_in), nn.GELU(), conv(c_out, c_out), nn.GELU())


def fastvit(classes: int = 100) -> nn.Sequential:
    a, b, c = 48, 96, 192
    stem = [conv(3, a, 3, 2), nn.GELU(), conv(a, a, 3, 2, a), nn.GELU(), conv(a, a), nn.GELU()]
    first = [conv(a, a, 3, 1, a), feed_forward(a), conv(a, a, 3, 1, a), feed_forward(a), embedding(a, b)]
    second = [conv(b, b, 3, 1, b), feed_forward(b), embedding(b, c)]
    last = [conv(c, c, 7, 1, c), Attention(c), feed_forward(c)]
    return classifier([*stem, *first, *second, *last], c, classes)


model = seeded(fastvit, (1, 3, 64, 64))
