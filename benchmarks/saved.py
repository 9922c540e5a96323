"""The graphs of delegates that studies read: as `eqsat bench` saves them, or lowered here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models import ZOO
from eqsat.bench.lowering import prepare

_EXPLICIT = ".explicit.tosa"


@dataclass(frozen=True, slots=True)
class SavedGraph:
    """The graph of one delegate in two saved files.

    explicit: before the layout passes.
    stock: as stock ExecuTorch lowers it.
    """

    model: str
    delegate: str
    target: str
    explicit: Path
    stock: Path


def _files(directory: Path, models: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[str, str, str, Path]]:
    """Yields (model, delegate, target, file) of the files <model>.<delegate>.<target>.explicit.tosa."""
    for file in sorted(directory.glob(f"*{_EXPLICIT}")):
        model, delegate, target = file.name.removesuffix(_EXPLICIT).rsplit(".", 2)
        if (not models or model in models) and (not targets or target in targets):
            yield model, delegate, target, file


def graphs(directory: Path, models: Sequence[str] = (), targets: Sequence[str] = ()) -> Iterator[SavedGraph]:
    """Yields the graphs of which a directory has both files, <model>.<delegate>.<target>.{explicit,stock}.tosa.

    models, targets: only these; all if empty.
    """
    for model, delegate, target, explicit in _files(directory, models, targets):
        stock = explicit.with_name(explicit.name.replace(".explicit.", ".stock."))
        if stock.exists():
            yield SavedGraph(model, delegate, target, explicit, stock)


def explicit_graphs(model: str, target: str, directory: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yields (delegate, TOSA with explicit layout) of a model, from saved files or lowered by ExecuTorch if there are
    none.

    model: a name of the zoo, a `file.py:callable` or a `module:callable`.
    """
    if directory is not None:
        yield from ((delegate, file.read_bytes()) for _, delegate, _, file in _files(directory, [model], [target]))
        return
    files, _ = prepare(f"benchmarks.models.{model}:model" if model in ZOO else model, target)
    for name, tosa in files.items():
        delegate, _, kind = name.partition(".")
        if kind == "explicit":
            yield delegate, tosa
