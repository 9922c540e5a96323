"""Deterministic random weights that keep every activation alive.

An untrained network can flatter an optimizer: a BatchNorm with mean 0 and variance 1 is an identity, a zero bias
folds away, and activations that shrink layer by layer all quantize to one value, under which any rewrite looks
correct.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

_CONV = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)
_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d)


def seeded(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`make()` with lively weights, in eval mode, and one standard normal input per shape."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = make()
        for layer in module.modules():
            _initialise(layer)
        _settle_batch_norms(module, shapes)
        inputs = tuple(torch.randn(shape) for shape in shapes)
    return module.eval(), inputs


def _initialise(layer: nn.Module) -> None:
    """Variance-preserving weights, non-zero biases, norms whose scale and shift differ per channel."""
    if isinstance(layer, (*_CONV, nn.Linear)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu" if isinstance(layer, _CONV) else "linear")
        if layer.bias is not None:
            nn.init.normal_(layer.bias, std=0.1)
    elif isinstance(layer, (*_BATCH_NORM, nn.LayerNorm)):
        nn.init.uniform_(layer.weight, 0.5, 1.5)
        nn.init.normal_(layer.bias, std=0.2)


def _settle_batch_norms(module: nn.Module, shapes: tuple[tuple[int, ...], ...], batches: int = 4) -> None:
    """Running statistics measured on random batches, as training would have left them."""
    norms = [layer for layer in module.modules() if isinstance(layer, _BATCH_NORM)]
    for norm in norms:
        norm.momentum = None  # a plain average over the batches
    if norms:
        module.train()
        with torch.no_grad():
            for _ in range(batches):
                module(*(torch.randn(shape) for shape in shapes))
