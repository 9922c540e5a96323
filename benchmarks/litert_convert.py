"""Converts a PyTorch model to an int8 .tflite.

It runs in an environment of its own (see `litert`), so it imports nothing of eqsat.

python benchmarks/litert_convert.py REFERENCE OUT.tflite
"""

import importlib
import importlib.util
import json
import os
import sys
import time
from typing import Any

import torch


def load(reference: str) -> tuple[torch.nn.Module, tuple[Any, ...], Any]:
    place, _, attribute = reference.rpartition(":")
    sys.path[:0] = [os.getcwd(), *([os.path.dirname(place)] if place.endswith(".py") else [])]
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("model_of_a_user", place)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    made = getattr(module, attribute)()
    return made[0].eval(), tuple(made[1]), made[2] if len(made) == 3 else None


def like(inputs: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(x.shape, generator=generator, dtype=x.dtype) if x.is_floating_point() else x for x in inputs
    )


def main(reference: str, out: str) -> None:
    import litert_torch
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    module, inputs, batches = load(reference)
    started = time.perf_counter()
    floating = f"{out}.float"
    litert_torch.convert(module, inputs).export(floating)
    converted = time.perf_counter()
    signatures = Interpreter(model_path=floating).get_signature_list()
    ((name, signature),) = signatures.items()
    # the batches on which ExecuTorch's path is calibrated: the example and three like it
    given = batches or [inputs, *(like(inputs, seed) for seed in range(3))]
    data = {name: [dict(zip(signature["inputs"], (x.numpy() for x in batch))) for batch in given]}
    maker = quantizer.Quantizer(floating)
    maker.load_quantization_recipe(recipe.static_wi8_ai8())
    maker.quantize(maker.calibrate(data)).export_model(out, overwrite=True)
    os.unlink(floating)
    print(json.dumps({"convert": converted - started, "quantize": time.perf_counter() - converted}))


main(*sys.argv[1:])  # it is only run, by `litert`, and never imported
