"""Convolutions in place of Vela's copies into CONCATs (`eqsat/choice/copying.py`).

Vela's table of a graph without such convolutions tells which operands are copied.
All other choices are made before.
The convolutions need a little flash each, and a search within memory limits that may choose
them from the start finds less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eqsat.choice.compiled import Compiled
from eqsat.search.explored import RoundsWithin
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.table import Row
from extraction import Extraction, check

#: The extractor's name in logs and records.
_NAME = "copies"
#: Most CONCATs that are tried one by one, if all at once exceed the memory or are no faster.
_MOST = 12


class CopyRounds(RoundsWithin):
    """Rounds from the fastest graph, and from the fastest that fits."""

    called = "rounds with copies by convolutions"

    def _run(self) -> str:
        self.explored = replace(self.explored, choices=self.choices.with_copies())
        known = self.graphs
        fitting = [c for c in known if self.limits.fits(c.figures)]
        starts = [min(graphs, key=lambda c: c.figures.cycles) for graphs in (known, fitting) if graphs]
        for start in {id(c): c for c in starts}.values():
            self._improve(start)
        return "the copies of the fastest graphs were tried"

    def _improve(self, start: Compiled) -> None:
        """Tries all copies at once; if that is no better, one CONCAT after the other."""
        found = self._copied(start)
        if not found or self._is_better(self._with(start, found), start):
            return
        best, classes = start, list(found)[:_MOST]
        for k, cls in enumerate(classes):
            for following in classes[k + 1 : k + self.search.pool.size]:
                self._begin({**best.choice, following: found[following]})
            tried = self._with(best, {cls: found[cls]})
            if tried is not None and self._is_better(tried, best):
                best = tried

    def _is_better(self, tried: Compiled | None, than: Compiled) -> bool:
        """Whether a graph is faster, and fits if the other one does."""
        if tried is None or tried.figures.cycles >= than.figures.cycles:
            return False
        return self.limits.fits(tried.figures) or not self.limits.fits(than.figures)

    def _with(self, start: Compiled, changed: Mapping[int, int]) -> Compiled | None:
        choice = {**start.choice, **changed}
        cost = check(self.choices.graph, choice)
        return self._add(Extraction(choice, cost, -math.inf, "feasible", [], 0.0, _NAME), _NAME, 0)[0]

    def _copied(self, start: Compiled) -> dict[int, int]:
        """Returns {class: the candidate that copies most operands by convolutions}.

        The classes are those of CONCATs whose operands Vela copies, most cycles first.
        """
        choices = self.choices
        graph, origin = choices.tensor_graph(start.choice)
        copies = _copies(graph, start.estimate.rows)
        out = {}
        for n in sorted((n for n in copies if n in origin), key=lambda n: -copies[n].cycles):
            cls, plain = int(choices.graph.node_class[origin[n]]), choices.candidates[origin[n]]
            forms = {
                m: len(c.copied)
                for m in choices.graph.class_nodes(cls)
                if (c := choices.candidates[m]).enode is plain.enode
                and c.copied
                and copies[n].places.issuperset(c.copied)
            }
            if forms:
                out[cls] = max(forms, key=lambda m: forms[m])
        return out


@dataclass(slots=True)
class _Copies:
    """The places of the operands of a CONCAT that Vela copies, and the cycles of these copies."""

    places: set[int] = field(default_factory=set)
    cycles: int = 0


def _copies(graph: TensorGraph, rows: Sequence[Row]) -> dict[int, _Copies]:
    """Returns {CONCAT: its copies} by Vela's table.

    The table gives only the size of a copied operand.
    Among operands of that size, views and operands with other readers are assumed first.
    """
    nodes, readers = {name: n for n, name in written_names(graph).items()}, graph.readers()
    out: dict[int, _Copies] = {}
    for row in rows:
        n = nodes.get(row.name, -1)
        if row.operator != "MemoryCopy" or n < 0 or graph.nodes[n].op != "concat":
            continue
        found = out.setdefault(n, _Copies())
        found.cycles += row.cycles
        fit = {
            k: len(readers[i]) == 1 and graph.nodes[i].op in ("rescale", "clamp", "table")
            for k, i in enumerate(graph.nodes[n].inputs)
            if k not in found.places and graph.type(i).elements == row.macs
        }
        found.places.update(sorted(fit, key=lambda k: fit[k])[:1])
    return out
