"""Verdicts on every operator of the source graph, with proofs."""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import networkx as nx

from eqsat.egraph.log import Row
from eqsat.explain.record import FOREVER, Proof, Record, enode_text, type_text, value_text
from eqsat.search.origins import of_choice
from eqsat.search.result import Run
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tosa.flatbuffer import list_names, tensor_names
from eqsat.tosa.locations import Origins
from eqsat.vela.table import by_node
from extraction import ChoiceGraph, Extraction, ExtractionError, InvalidExtraction, check, extract, reachable

#: Verdicts, with their meanings.
VERDICTS = {
    "stayed": "as it was",
    "changed": "the same value by another operator or with other attributes",
    "moved": "the operator works on another tensor",
    "removed": "nothing takes its place",
}


@dataclass(slots=True)
class Verdict:
    """The verdict on one operator of the source graph.

    verdict: one of VERDICTS. now: the operator that replaces it.
    cycles, cycles_now: Vela's cycles in the whole graphs; calibrated, calibrated_now: calibrated ones.
    They are None if it has no row of its own, since it is free or runs as part of another operator.
    written: the TOSA operators, if a movement takes several. shown_at: nodes that needed its value, or the node itself.
    proofs: proofs that the values of `shown_at` equal those that are computed now.
    """

    node: int
    op: str
    operands: tuple[int, ...]
    type: str
    verdict: str
    cycles: float | None
    calibrated: float | None
    now: str = ""
    now_type: str = ""
    cycles_now: float | None = None
    calibrated_now: float | None = None
    written: tuple[str, ...] = ()
    shown_at: tuple[int, ...] = ()
    proofs: list[Proof] = field(default_factory=list)

    @property
    def rules(self) -> list[str]:
        return list(dict.fromkeys(r for p in self.proofs for r in p.rules()))


class Added(NamedTuple):
    """An operator of the choice that replaces no operator of the source. cycles, calibrated: as in a Verdict."""

    op: str
    type: str
    cycles: float | None
    calibrated: float | None
    origins: Origins


#: Vela's and calibrated cycles of an operator, as in a Verdict.
_Cycles = tuple[int | None, int | None]
_FREE: _Cycles = None, None


class Verdicts:
    """The comparison of the source graph with a run's choice. origins: origins by node of the source."""

    def __init__(self, run: Run, record: Record, origins: Mapping[int, Origins]):
        choices, choice = run.choices, run.choice
        self.record, self.choices, self.choice, self.source = record, choices, choice, run.source
        graph, made_for = choices.tensor_graph(choice)
        written_for = {name: made_for[n] for n, name in list_names(graph).items() if n in made_for}
        #: Vela's and calibrated cycles by node of the source, and by choice node.
        self.before: Mapping[int, _Cycles] = by_node(
            run.tables.get("explicit", ()), tensor_names(run.graphs["explicit"])
        )
        self.now: Mapping[int, _Cycles] = by_node(run.tables.get("eqsat", ()), written_for)
        chosen = of_choice(choices, graph, made_for, origins) if origins else {}
        #: Origins by choice node.
        self.origins = {made_for[n]: o for n, o in chosen.items()}
        self.rows = record.rows_of(choices, choices.of_classes(choice))
        self.computed: dict[int, Row] = {r.cls: r for r in self.rows.values()}
        self.node_of = {self.rows[c].cls: n for c, n in choices.of_classes(choice).items()}
        self.live = [n for n in self.source.live() if self.source.nodes[n].op not in ("input", "const")]
        self.stays = {n for n in self.live if self._keep(n)}
        kept = {record.final(n) for n in self.stays}
        #: Classes that the choice computes by operators that are not the source's.
        self.new = [c for c, row in self.computed.items() if c not in kept and row.function != "Leaf"]
        self.position = {c: i for i, c in enumerate(choices.classes)}
        self.pairs = self._pairs()
        self._below: dict[int, list[Proof]] = {}
        self._mentioned: dict[int, set[int]] = {}

    def _keep(self, n: int) -> bool:
        cls = self.record.final(n)
        own = self.record.explicit(n)
        first = next(k for k in self.record.nodes[cls] if self.record.explicit(k) == own)
        return n == first and self.computed.get(cls) == self.record.closure.at(own)

    def all(self) -> dict[int, Verdict]:
        """Returns {node: verdict} of all operators of the source graph, without constants and inputs."""
        out = {}
        for n in self.live:
            node, cls = self.source.nodes[n], self.record.final(n)
            verdict = "stayed" if n in self.stays else "removed"
            text, kind = self._op(self.record.explicit(n)), type_text(self.source.type(n))
            v = Verdict(n, text, node.inputs, kind, verdict, *self.before.get(n, _FREE))
            place = cls if n in self.stays else self.pairs.get(n)
            if place is not None:
                v.now, v.now_type = self._op(self.computed[place]), type_text(self.record.type_of(place))
                v.cycles_now, v.calibrated_now = self.now.get(self.node_of[place], _FREE)
                steps = self.choices.candidates[self.node_of[place]].steps
                v.written = tuple(OPS[op].text(attrs) for op, attrs in steps) if len(steps) > 1 else ()
                if n not in self.stays:
                    v.verdict = "changed" if place == cls else "moved"
            if n not in self.stays:
                self._prove(v)
            out[n] = v
        return out

    def list_added(self) -> list[Added]:
        taken = set(self.pairs.values())
        return [
            Added(
                self._op(self.computed[cls]),
                type_text(self.record.type_of(cls)),
                *self.now.get(self.node_of[cls], _FREE),
                self.origins.get(self.node_of[cls], ()),
            )
            for cls in self.new
            if cls not in taken
        ]

    def alternatives(self, n: int) -> list[dict[str, Any]]:
        """Returns the candidates for the value of a node, as `Explanation.alternatives`, but not sorted."""
        position, handle = self.position, self.choices.frozen.handle
        cls = position.get(handle[n])
        if cls is None:
            return []
        names = {c: self.record.name(row.cls, FOREVER) for c, row in self.rows.items()}
        names |= {position[c]: f"n{k}" for k, c in sorted(handle.items(), reverse=True) if c in position}
        return [
            {
                "enode": k,
                "op": enode_text(self.choices.candidates[k].enode),
                "operands": [names.get(c, f"c{c}") for c in self.choices.candidates[k].operands],
                "cycles": self.choices.candidates[k].cycles,
                "chosen": self.choice.get(cls) == k,
            }
            for k in self.choices.graph.class_nodes(cls)
        ]

    # -- the replaced operators -------------------------------------------------------------------

    def _op(self, row: Row) -> str:
        return value_text(self.record.value(row))

    def _pairs(self) -> dict[int, int]:
        """Returns {node that did not stay: class that its operator computes now}, within connected changes."""
        gone = [n for n in self.live if n not in self.stays]
        out: dict[int, int] = {}
        for part in nx.connected_components(self._draw_changes(gone, set(self.new))):
            old = sorted(n for kind, n in part if kind == "old")
            fresh = [c for c in self.new if ("new", c) in part]
            for key in (self._in_place, self._exactly, self._roughly):
                self._match_up(old, fresh, key, out)
        return out

    def _draw_changes(self, gone: list[int], new: set[int]) -> nx.Graph:
        """Returns the graph of source nodes that are gone ("old", number) and classes that are new ("new", number).

        Two are joined if one reads the other, or if both are of one class.
        """
        parts = nx.Graph()
        parts.add_nodes_from([("old", n) for n in gone] + [("new", c) for c in new])
        for n in gone:
            parts.add_edges_from((("old", n), ("old", i)) for i in self.source.nodes[n].inputs if ("old", i) in parts)
            if self.record.final(n) in new:
                parts.add_edge(("old", n), ("new", self.record.final(n)))
        for cls, row in self.rows.items():
            read = (self.rows[k].cls for k in self.choices.candidates[self.choice[cls]].operands)
            parts.add_edges_from((("new", row.cls), ("new", r)) for r in read if {row.cls, r} <= new)
        return parts

    def _match_up(
        self, old: Iterable[int], fresh: list[int], key: Callable[[Row, int], Any], out: dict[int, int]
    ) -> None:
        waiting: dict[Any, deque[int]] = defaultdict(deque)
        for c in fresh:
            if c not in out.values() and (k := key(self.computed[c], c)) is not None:
                waiting[k].append(c)
        for n in old:
            k = key(self.record.explicit(n), self.record.final(n))
            if n not in out and k is not None and waiting[k]:
                out[n] = waiting[k].popleft()

    def _in_place(self, row: Row, cls: int) -> Any:
        """Returns the key of an operator by its kind and the class of its value."""
        value = self.record.value(row)
        return "move" if isinstance(value, Move) else getattr(value, "op", None), cls

    def _exactly(self, row: Row, cls: int) -> Any:
        """Returns the key of an operator by its attributes, dtype and number of elements."""
        t = self.record.type_of(cls)
        return row[:2], t.dtype, t.elements

    def _roughly(self, row: Row, cls: int) -> Any:
        """Returns the key of an operator by its kind, dtype and sorted dims; None for a movement."""
        value, t = self.record.value(row), self.record.type_of(cls)
        return None if isinstance(value, Move) else (value.op, t.dtype, tuple(sorted(t.shape)))

    # -- the proofs -------------------------------------------------------------------------------

    def _prove(self, v: Verdict) -> None:
        joints = [v.node] if self.record.final(v.node) in self.computed else self._joints(v.node)
        if joints != [v.node]:
            joints = [n for n in joints if self._uses(n, self.record.final(v.node))] or joints
        v.shown_at = tuple(joints)
        v.proofs = list({id(p): p for n in joints for p in self._proofs(n)}.values())

    def _proofs(self, node: int) -> list[Proof]:
        """Returns proofs that the values computed now equal a node of the source."""
        cls = self.record.final(node)
        return [self.record.closure.prove(self.record.loaded[node], self.computed[cls]), *self._find_made_below(cls)]

    def _uses(self, node: int, cls: int) -> bool:
        """Whether the proofs of `node` mention a class."""
        if node not in self._mentioned:
            links = (link for q in self._proofs(node) for p in q.proofs() for link, _ in p.links)
            rows = {r for k in links for r in (k.start, k.end, *k.instance.seen)}
            self._mentioned[node] = {self.record.closure.find(r.cls) for r in rows}
        return cls in self._mentioned[node]

    def _joints(self, node: int) -> list[int]:
        """Returns the nearest nodes after `node` whose values are still computed."""
        readers, seen, queue = self.source.readers(), {node}, deque([node])
        out: list[int] = []
        while queue:
            for r in readers[queue.popleft()]:
                if r not in seen:
                    seen.add(r)
                    (out if self.record.final(r) in self.computed else queue).append(r)
        return sorted(out)

    def _find_made_below(self, cls: int) -> list[Proof]:
        """Returns the proofs of the new classes from which the choice for `cls` is computed."""
        if cls not in self._below:
            out = self._below[cls] = []
            for c in self.choices.candidates[self.node_of[cls]].operands:
                row = self.rows[c]
                if row.cls not in self.record.nodes:
                    out += [self.record.closure.prove(row.cls, row), *self._find_made_below(row.cls)]
        return self._below[cls]


#: E-nodes of a choice graph up to which costs without an operator are extracted by `portfolio`.
#: Of `examples/upscale.tosa` on U85, greedy extraction reports up to 8,391 cycles too many.
_THOROUGH = 5_000
#: Seconds of such an extraction.
_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Removal:
    """The cost of the graph without one operator.

    extra: additional cycles by the run's prices, None if the graph needs the operator. instead: its replacements.
    """

    extra: float | None
    instead: tuple[str, ...] = ()


def removal(run: Run, cls: int) -> Removal:
    """Returns the cheapest choice found without the e-node that the run's choice has for `cls`."""
    choices, choice = run.choices, run.choice
    enode = choices.candidates[choice[cls]].enode
    without = {n for n in choices.graph.class_nodes(cls) if choices.candidates[n].enode is enode}
    found = _cheapest(replace(choices.graph, forbidden=choices.graph.forbidden | without))
    if found is None:
        return Removal(None)
    changed = [n for c, n in choices.of_classes(found.choice).items() if choice.get(c) != n]
    new = [n for n in changed if choices.candidates[n].enode.op != "const"]
    new.sort(key=lambda n: -choices.candidates[n].cycles)
    enodes = [choices.candidates[n].enode for n in new]
    instead = tuple(f"{enode_text(e)} {type_text(choices.frozen.types[e.cls])}" for e in enodes)
    return Removal(max(0.0, found.cost - run.cost()), instead)


def _cheapest(graph: ChoiceGraph) -> Extraction | None:
    """Returns the cheapest choice found in the time for one line of an explanation, None if there is none."""
    try:
        return extract(graph, "portfolio" if graph.n_nodes <= _THOROUGH else "dag_greedy", time_limit=_SECONDS)
    except ExtractionError:
        return None


def path(run: Run, n: int) -> float | None:
    """Returns the additional cycles of the whole graph if choice node `n` computes its class.

    It is the better of an extraction and a change of the present choice, None if `n` cannot be used.
    """
    graph, choice = run.choices.graph, run.choice
    cls = int(graph.node_class[n])
    if choice.get(cls) == n:
        return 0.0
    others = {k for k in graph.class_nodes(cls) if k != n}
    forced = replace(graph, roots=(*graph.roots, cls), forbidden=graph.forbidden | others)
    found = _cheapest(forced)
    if found is None:
        return None
    costs = [found.cost]
    with contextlib.suppress(InvalidExtraction):  # the run's choice may depend on itself with `n`
        costs.append(check(forced, reachable(forced, {**found.choice, **choice, cls: n})))
    return max(0.0, min(costs) - run.cost())
