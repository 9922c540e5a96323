"""The zoo loads, runs, and is the same every time; no model has gone dead or wild."""

from collections.abc import Sequence

import pytest
import torch

from benchmarks.models import DEPLOYED, ZOO, load, trained
from tests.sweeps import parts


def run(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    module, inputs = load(name)
    with torch.no_grad():
        outputs = module(*inputs)
    return module, outputs if isinstance(outputs, tuple) else (outputs,)


@pytest.mark.slow
@pytest.mark.parametrize("names", parts({"zoo": ZOO, "deployed": DEPLOYED}, 6))
def test_models_are_alive_and_the_same_every_time(names: Sequence[str]) -> None:
    for name in names:
        assert_alive(name)


def assert_alive(name: str) -> None:
    state = torch.get_rng_state()
    module, first = run(name)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"
    torch.rand(3)
    for output, again in zip(first, run(name)[1], strict=True):
        assert torch.equal(output, again)
    for output in first:
        assert output.isfinite().all()
        assert 1e-2 < output.std() < 1e2
        assert output.unique().numel() > output.numel() // 4
    assert not module.training, "in eval mode, with nontrivial norms"
    for layer in module.modules():
        if isinstance(layer, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)):
            assert layer.running_mean.abs().max() > 1e-3
            assert (layer.running_var - 1).abs().max() > 1e-3
            assert layer.weight.std() > 0 and layer.bias.std() > 0


@pytest.mark.parametrize("model", [trained.ds_cnn, trained.anomaly_autoencoder])
def test_trained_networks_have_dead_filters_and_outputs_that_are_not(model) -> None:
    module, inputs = model()
    *layers, last = [m.weight for m in module.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    for weight in layers:
        dead = (weight.flatten(1) == 0).all(1).float().mean()
        assert dead >= trained.DEAD and (weight == 0).float().mean() > trained.SPARSE
    assert (last != 0).all() and module(*inputs).unique().numel() > 10
