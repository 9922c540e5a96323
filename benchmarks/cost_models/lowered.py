"""The graphs on which cost models are compared: networks lowered here, or saved TOSA."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.models import ZOO


def graphs(model: str, target: str) -> Iterator[tuple[str, bytes]]:
    """Yields (name, TOSA with explicit layout) per delegate of a model.

    model: a name of the zoo, a `file.py:callable` or a `module:callable`.
    """
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from eqsat.executorch.loading import load_program
    from eqsat.executorch.lowering import lower_with_session
    from eqsat.options.options import Options

    spec = EthosUCompileSpec(target)
    program, _ = load_program(f"benchmarks.models.{model}:model" if model in ZOO else model, spec)
    _, session = lower_with_session(
        program, spec, options=Options(preset="none", extractor="dag_greedy", rounds=1, trials=1)
    )
    yield from _named(model.rpartition(":")[2], [r.explicit for r in session.results])


def saved(directory: Path, model: str, target: str) -> Iterator[tuple[str, bytes]]:
    """Yields (name, TOSA with explicit layout) from files `<model>.<delegate>.<target>.explicit.tosa`."""
    files = sorted(directory.glob(f"{model}.*.{target}.explicit.tosa"))
    yield from _named(model, [f.read_bytes() for f in files])


def _named(model: str, buffers: list[bytes]) -> list[tuple[str, bytes]]:
    """Returns the graphs with their names: that of the model, from the second on with their number."""
    return [(model if k == 0 else f"{model}#{k}", b) for k, b in enumerate(buffers)]
