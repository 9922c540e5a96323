"""The autoencoder of MLPerf Tiny's anomaly detection: Banbury et al., arXiv:2106.07597.

It has ten Linear layers on one vector, with the norms folded.
Almost all of its traffic is weights, and only its RESCALEs can become cheaper.
So it shows whether a search does no harm where there is little to gain.

Input: (1, 640), five frames of 128 mel bands.
Output: the same shape.
"""

import itertools

from torch import nn

from benchmarks.models._blocks import seeded

#: Input features of each Linear layer.
WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)


def autoencoder() -> nn.Sequential:
    layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(WIDTHS)]
    return nn.Sequential(*layers, nn.Linear(WIDTHS[-1], WIDTHS[0]))


model = seeded(autoencoder, (1, 640))
