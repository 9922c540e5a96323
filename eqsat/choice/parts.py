"""Costs of SLICEs, as classes that a ChoiceGraph gets besides those of the e-graph.

Most operators read a part of a tensor in place, and then the SLICE costs nothing (`cost_models/fusion.py`).
Other readers, and outputs of the graph, need a copy, which Vela makes once for all of them.
A class stands for the copy of a value.
It has one node, which reads the value, and costs a copy if the value is a SLICE.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cost_models.protocol import CostModel
from eqsat.choice.candidates import Candidate
from eqsat.choice.storage import StorageCosts


def add_part_costs(
    out: StorageCosts,
    candidates: Sequence[Candidate],
    nodes: Sequence[Sequence[int]],
    roots: Collection[int],
    model: CostModel,
) -> None:
    """Appends the copies of parts to `out`, which has those of views.

    nodes: the candidates of each class.
    roots: classes that are outputs.
    """
    parts = {
        cls: found
        for cls, members in enumerate(nodes)
        if (found := [n for n in members if candidates[n].is_part and candidates[n].usable and candidates[n].cycles])
    }
    copying: dict[int, list[int]] = {cls: [] for cls in parts}
    for n, reader in enumerate(candidates):
        for cls in dict.fromkeys(reader.operands) if reader.usable else ():
            if cls in parts and not _reads_in_place(reader, candidates[parts[cls][0]], model):
                copying[cls].append(n)
    n_nodes = len(candidates) + sum(map(len, out.rows))
    for cls, readers in copying.items():
        if not readers and cls not in roots:
            continue
        copy = len(nodes) + len(out.rows)
        out.rows.append([(0.0, [cls])])
        out.pairs.update({(n_nodes, part): candidates[part].cycles for part in parts[cls]})
        n_nodes += 1
        for n in readers:
            out.reads.setdefault(n, []).append(copy)
        if cls in roots:
            out.roots.append(copy)


def _reads_in_place(reader: Candidate, part: Candidate, model: CostModel) -> bool:
    """Whether a reader reads a SLICE in place; a movement that begins with a view does not."""
    if reader.viewed_first:
        return False
    fusion = model.fusion(reader.priced, part.priced, ())
    return fusion is not None and fusion.of_read == 1.0
