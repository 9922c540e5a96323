"""The zoo loads, runs, and is the same every time; no model has gone dead or wild."""

import pytest
import torch

from benchmarks.models import ZOO, load


def run(name: str) -> tuple[torch.Tensor, ...]:
    module, inputs = load(name)
    with torch.no_grad():
        outputs = module(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


@pytest.mark.parametrize("name", ZOO)
def test_outputs_are_finite_and_vary(name: str) -> None:
    for output in run(name):
        assert output.isfinite().all()
        assert 1e-2 < output.std() < 1e2
        assert output.unique().numel() > output.numel() // 4


@pytest.mark.parametrize("name", ZOO)
def test_deterministic_and_leaves_the_global_generator_alone(name: str) -> None:
    state = torch.get_rng_state()
    first = run(name)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    for a, b in zip(first, run(name), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ZOO)
def test_eval_mode_with_nontrivial_norms(name: str) -> None:
    module, _ = load(name)
    assert not module.training
    for layer in module.modules():
        if isinstance(layer, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)):
            assert layer.running_mean.abs().max() > 1e-3
            assert (layer.running_var - 1).abs().max() > 1e-3
            assert layer.weight.std() > 0 and layer.bias.std() > 0


def test_unknown_name_lists_the_zoo() -> None:
    with pytest.raises(ValueError, match="unknown model 'nope'.*ds_cnn"):
        load("nope")
