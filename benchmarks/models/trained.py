"""Networks of MLPerf Tiny with weights as training and pruning leave them: Banbury et al., arXiv:2106.07597.

Of each layer but the last, a quarter of the filters are zero, so that their channels are constant for every input.
Of the other weights, the smallest 70% are zero.
Filters have scales that differ by up to a factor of 100, as those of folded batch norms do.
(77% of the weights of MLPerf Tiny's visual wake words are 0, and 864 of its 2,736 channels are constant.)

They are not in the zoo, whose weights say nothing about values: `--models benchmarks.models.trained:ds_cnn`.
"""

from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.models import load

#: Shares of filters, and of the weights of the others, that are zero.
DEAD, SPARSE = 0.25, 0.7
#: Exponents of ten between which the scales of filters are spread.
SCALES = (-1.0, 1.0)


def _trained(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    module, inputs = load(name)
    layers = [m for m in module.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in layers[:-1]:
            _train(layer.weight, generator)
    return module, inputs


def _train(weight: Tensor, generator: torch.Generator) -> None:
    """Changes the weights of a layer, filters first, in place."""
    filters = len(weight)
    small = weight.abs() < weight.abs().flatten().quantile(SPARSE)
    exponents = torch.empty(filters).uniform_(*SCALES, generator=generator)
    dead = torch.randperm(filters, generator=generator)[: int(DEAD * filters)]
    weight[small] = 0
    weight *= (10**exponents).reshape(-1, *[1] * (weight.ndim - 1))
    weight[dead] = 0


ds_cnn = partial(_trained, "ds_cnn")
resnet8 = partial(_trained, "resnet8")
visual_wake_words = partial(_trained, "mobilenet_v1_025")
anomaly_autoencoder = partial(_trained, "anomaly_autoencoder")
