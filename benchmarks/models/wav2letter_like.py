"""Speech recognition by 1-D convolutions, narrow enough for a microcontroller: Collobert et al., arXiv:1609.03193.

Two kernels are as long as 48 and 32, along one axis of two, so rows are long.
LeakyReLU is no clamp, so it needs a table where a ReLU would be fused.

Input: (1, 39, 296), frames of MFCCs.
Output: (1, 29, 148) scores of letters.
"""

from torch import nn

from benchmarks.models._blocks import seeded

#: (channels, kernel, stride) of each layer.
LAYERS = ((96, 48, 2), *[(96, 7, 1)] * 7, (192, 32, 1), (192, 1, 1))


def wav2letter(features: int = 39, letters: int = 29) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = features
    for c_out, kernel, stride in LAYERS:
        before = (kernel - 1) // 2
        layers += [
            nn.ConstantPad1d((before, kernel - stride - before if stride > 1 else kernel - 1 - before), 0.0),
            nn.Conv1d(channels, c_out, kernel, stride),
            nn.LeakyReLU(0.2),
        ]
        channels = c_out
    return nn.Sequential(*layers, nn.Conv1d(channels, letters, 1))


model = seeded(wav2letter, (1, 39, 296))
