"""The graphs of delegates that studies read, as `eqsat bench` saves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def graphs(directory: Path, models: Sequence[str] = (), targets: Sequence[str] = ()) -> Iterator[SavedGraph]:
    """Yields the graphs of which a directory has both files, <model>.<delegate>.<target>.{explicit,stock}.tosa.

    models, targets: only these; all if empty.
    """
    for explicit in sorted(directory.glob(f"*{_EXPLICIT}")):
        parts = explicit.name.removesuffix(_EXPLICIT).rsplit(".", 2)
        if len(parts) < 3:
            continue
        model, delegate, target = parts
        stock = explicit.with_name(explicit.name.replace(".explicit.", ".stock."))
        if (not models or model in models) and (not targets or target in targets) and stock.exists():
            yield SavedGraph(model, delegate, target, explicit, stock)
