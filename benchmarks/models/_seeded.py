"""Deterministic random weights under which no layer is trivial.

An untrained network makes an optimizer look better than it is.
A BatchNorm with mean 0 and variance 1 is an identity, and a zero bias folds away.
Activations that shrink layer by layer all quantize to one value, under which any rewrite looks correct.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

_CONV = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)
_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d)


def seeded(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns what `make` returns, in eval mode and with seeded weights, and one standard normal input per shape."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = make()
        for layer in module.modules():
            _initialise(layer)
        _settle_batch_norms(module, shapes)
        inputs = tuple(torch.randn(shape) for shape in shapes)
    return module.eval(), inputs


def _initialise(layer: nn.Module) -> None:
    """Draws variance-preserving weights, non-zero biases, and scales and shifts of norms that differ per channel."""
    if isinstance(layer, (*_CONV, nn.Linear)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu" if isinstance(layer, _CONV) else "linear")
        if layer.bias is not None:
            nn.init.normal_(layer.bias, std=0.1)
    elif isinstance(layer, (*_BATCH_NORM, nn.LayerNorm)):
        nn.init.uniform_(layer.weight, 0.5, 1.5)
        nn.init.normal_(layer.bias, std=0.2)


def _settle_batch_norms(module: nn.Module, shapes: tuple[tuple[int, ...], ...], batches: int = 4) -> None:
    """Sets the running statistics to those of random batches, as training would have left them."""
    norms = [layer for layer in module.modules() if isinstance(layer, _BATCH_NORM)]
    for norm in norms:
        norm.momentum = None  # The statistics become a plain average over the batches.
    if norms:
        module.train()
        with torch.no_grad():
            for _ in range(batches):
                module(*(torch.randn(shape) for shape in shapes))
