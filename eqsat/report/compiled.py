"""What pages show of the graphs of a delegate before and after, and of their search."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqsat.ground.table import Table, number, ratio, share
from eqsat.report import graphs
from eqsat.report.graphs import NodeFacts
from eqsat.report.page import Part, View
from eqsat.search.clock import name_stage
from eqsat.search.figures import GraphFigures, read, tables
from eqsat.search.origins import of_buffer, table
from eqsat.search.result import Result, Run
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads, tensor_names
from eqsat.tosa.locations import Origins
from eqsat.vela.roofline import Bound
from eqsat.vela.table import Row, by_node

#: Names in the list of modules for an operator without an origin, and for the model itself.
UNKNOWN, WHOLE = "(not known)", "(the model itself)"


#: The name of the given graph where there is no other, as in a terminal.
BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Side:
    """A graph of a delegate.

    name: "stock", "explicit", or "eqsat" for the chosen one; BEFORE for the only one beside it.
    names: nodes by the name of the tensor in a row's source.
    rows: Vela's table, perhaps with calibrated cycles, with the origins and lower bound of each operator, or empty.
    origins: PyTorch operators by node, as far as they are known.
    """

    name: str
    graph: TensorGraph
    names: Mapping[str, int]
    rows: Sequence[Row]
    figures: GraphFigures = field(default_factory=GraphFigures)
    origins: Mapping[int, Origins] = field(default_factory=dict)

    @staticmethod
    def of(name: str, tosa: bytes, rows: Iterable[Row], figures: GraphFigures) -> Side:
        """Returns the side of a flatbuffer."""
        return Side(name, loads(tosa), tensor_names(tosa), table(tosa, rows), figures, of_buffer(tosa))

    def facts(self) -> dict[int, NodeFacts]:
        """Returns the facts of the graph's operators, by node."""
        cycles = {n: velas for n, (velas, _) in by_node(self.rows, self.names).items()}
        whole = max(1, sum(cycles.values()))
        return {
            n: NodeFacts(
                cycles.get(n),
                cycles.get(n, 0) / whole,
                f"n{n}",
                tuple(dict.fromkeys(o.module or WHOLE for o in self.origins.get(n, ()))),
                tuple(map(str, self.origins.get(n, ()))),
            )
            for n in self.graph.live()
        }


@dataclass(frozen=True)
class Sides:
    """The graphs of a delegate.

    before: the graphs that there would be without eqsat, stock's first.
    record: the figures, as in `Result.record`. run: the search, None if no alternative was found.
    calibrated: whether cycles of rows are calibrated; else they are Vela's.
    """

    name: str
    before: tuple[Side, ...]
    after: Side
    record: Mapping[str, Any]
    run: Run | None
    calibrated: bool = False

    @staticmethod
    def of(what: Run | Result, name: str = "") -> Sides:
        """Returns the graphs of a result or of a saved run."""
        run = what.run if isinstance(what, Result) else what
        record = what.record() if isinstance(what, Result) else what.result
        given = {"explicit": what.explicit, "chosen": what.tosa} if isinstance(what, Result) else {}
        graphs = run.graphs if run else given
        tables, figures = {**(run.tables if run else {}), "chosen": list(map(Row.read, record["table"]))}, read(record)
        there = [w for w in ("stock", "explicit") if w in graphs and figures[w].cycles is not None]
        calibrated = all(tables.get(w) and all(r.calibrated is not None for r in tables[w]) for w in (*there, "chosen"))
        if calibrated:
            tables = {w: [replace(r, cycles=r.priced) for r in rows] for w, rows in tables.items()}
        before = [Side.of(w, graphs[w], tables.get(w, ()), figures[w]) for w in there]
        if [side.name for side in before] == ["explicit"]:
            before = [replace(before[0], name=BEFORE)]
        after = Side.of(record["chosen"], graphs["chosen"], tables["chosen"], figures["eqsat"])
        return Sides(name or (run.name if run else ""), tuple(before), after, record, run, calibrated)

    def get_title(self, side: Side) -> str:
        """Returns the name of a graph before, which differs from that of the result."""
        return side.name if side.name != self.after.name else f"{side.name}, as given"

    def tables(self) -> list[Table]:
        """Returns the tables of all figures, with a column per graph."""
        before = {self.get_title(side): side.figures for side in self.before}
        bound = Bound(**self.record["bound"]) if "bound" in self.record else None
        return tables({**before, self.after.name: self.after.figures}, bound)

    @property
    def whose(self) -> str:
        """The kind of the operators' cycles, in words."""
        return "calibrated" if self.calibrated else "Vela's"

    @property
    def first(self) -> Side | None:
        """The graph with which the result is compared, None if there is none."""
        return self.before[0] if self.before else None


def modules_of(row: Row) -> list[str]:
    """Returns the PyTorch modules that a row of Vela's table stands for, each once."""
    return list(dict.fromkeys(o.module or WHOLE for o in row.origins or ())) or [UNKNOWN]


def module_kinds(sides: Iterable[Side]) -> dict[str, str]:
    """Returns the class of each module, without its package."""
    found = (o for s in sides for row in s.rows for o in row.origins or ())
    return {o.module: o.kind.rpartition(".")[2] for o in found if o.module and o.kind}


_SRAM = "SRAM, bytes"


def _count(x: float | None) -> str:
    return "-" if x is None else f"{x:g}" if x == round(x) else f"{x:.1f}"


#: Figures of rows, which are added up but for the most SRAM, and how they are written.
_FIGURES: dict[str, tuple[Callable[[Row], float], Callable[[float | None], str]]] = {
    "cycles": (lambda row: row.cycles, number),
    "operators": (lambda row: 1, _count),
    "needed": (lambda row: row.ideal or 0.0, number),
    "waiting": (lambda row: row.waiting or 0, number),
    _SRAM: (lambda row: row.sram_bytes, number),
    "weights, bytes": (lambda row: row.weight_bytes, number),
}


def by_module(sides: Sides) -> Table:
    """Returns the table by PyTorch's modules, with figures before and after, the most cycles first."""
    kinds = module_kinds((*sides.before, sides.after))
    old, new = (_sums(side) if side else {} for side in (sides.first, sides.after))
    rows = []
    for key in sorted({**old, **new}, key=lambda k: -max(t[k]["cycles"] for t in (old, new) if k in t)):
        a, b = (t.get(key, {"cycles": 0.0}) for t in (old, new))
        cells = [shown(t.get(name)) for name, (_, shown) in _FIGURES.items() for t in (a, b)]
        over = ratio(b["cycles"] / a["cycles"]) if a["cycles"] else ""
        rows.append((key, kinds.get(key, ""), *cells[:2], over, *cells[2:]))
    before = sides.first.name if sides.first else "before"
    names = [f"{what}: {who}" for what in _FIGURES for who in (before, sides.after.name)]
    return Table(
        "By PyTorch module",
        f"Vela's operators: how many run, their cycles ({sides.whose}), what their MACs and weights need at least at "
        "the full rates, cycles in which memory keeps them waiting, the most SRAM in use while one of them runs, and "
        "their encoded weights. An operator that stands for several modules counts for each in equal parts. A click "
        "on a row shows its operators in the graphs.",
        ("module", "class", *names[:2], "ratio", *names[2:]),
        tuple(rows),
        words=2,
    )


def _sums(side: Side) -> dict[str, dict[str, float]]:
    """Returns {module: its figures}."""
    out: dict[str, dict[str, float]] = {}
    for row in side.rows:
        found = modules_of(row)
        for key in found:
            sums = out.setdefault(key, dict.fromkeys(_FIGURES, 0.0))
            for name, (figure, _) in _FIGURES.items():
                x = figure(row)
                sums[name] = max(sums[name], x) if name == _SRAM else sums[name] + x / len(found)
    return out


def every_operator(name: str, rows: Sequence[Row]) -> Table:
    """Returns Vela's whole table of a graph, in the order in which it runs."""
    total = sum(row.cycles for row in rows) or 1
    told = (
        {
            "operator": row.operator,
            "PyTorch": ", ".join(map(str, row.origins or ())),
            "name": row.name,
            "#": str(i),
            "cycles": number(row.cycles),
            "of all": share(row.cycles / total),
            "needed": number(row.ideal),
            "waiting": number(row.waiting),
            "SRAM, bytes": number(row.sram_bytes),
            "weights, bytes": number(row.weight_bytes),
            "commands, bytes": number(row.command_bytes),
        }
        for i, row in enumerate(rows)
    )
    return Table.of(f"Every operator: {name}", "In the order in which they run.", told, words=3, folded=True)


def costs(sides: Sides) -> list[Part]:
    """Returns all figures of the graphs, and Vela's tables of them."""
    return [*sides.tables(), *(every_operator(s.name, s.rows) for s in (sides.after, *sides.before) if s.rows)]


def pictures(sides: Sides, name: str) -> list[Part]:
    """Returns the graphs side by side, with marks against the first one; `name` is for Model Explorer's files."""
    first, after = sides.first, sides.after
    left, new, pairs, facts = [], set[int](), {}, {}
    for side in sides.before:
        gone, fresh = graphs.marks(side.graph, after.graph)
        told = sides.get_title(side)
        pairs[told], facts[told] = (side.graph, gone, "gone"), side.facts()
        left.append((side.name, graphs.svg(side.graph, gone, "gone", facts[told])))
        if side is first:
            new = fresh
    pairs[after.name], facts[after.name] = (after.graph, new, "new"), after.facts()
    right = after.name, graphs.svg(after.graph, new, "new", facts[after.name])
    files = {"model-explorer": graphs.model_explorer(sides.name, pairs), "cycles": graphs.node_data(facts)}
    stem = name.replace("/", "_")
    return [View(left, right, {f"{stem}.{kind}.json": json.dumps(data).encode() for kind, data in files.items()})]


def saturation(run: Run) -> Table:
    """Returns the table of the passes of the saturation."""
    done = run.choices.frozen.saturation
    rows = (
        {
            "pass": str(i + 1),
            "rules that matched most": ", ".join(f"{r} {n:,}" for r, n in Counter(it.matches).most_common(3) if n),
            "e-nodes": number(it.nodes),
            "matches": number(sum(it.matches.values())),
        }
        for i, it in enumerate(done.iterations)
    )
    note = f"Ended: {done.stop}. Matches of rules by pass, and e-nodes at its end."
    return Table.of("Saturation", note, rows, words=2)


def extractions(record: Mapping[str, Any]) -> Table:
    """Returns the table of all choices that Vela compiled."""
    rows = (
        {
            "extractor": e["extractor"],
            "round": str(e["round"] + 1),
            "predicted cost": number(e["predicted"]),
            "calibrated cycles": number(e["cycles"]),
            "gap": "no bound" if e["gap"] is None else "proved least" if e["gap"] == 0 else f"{e['gap']:.2%}",
        }
        for e in record["extractions"]
    )
    note = (
        "Every choice that Vela compiled as a whole graph. From round 2 on, prices are corrected by Vela's figures for "
        "the choices before. The gap is an upper bound on how far the extractor's cost is above the lowest possible "
        "one."
    )
    return Table.of("Extraction", note, rows)


def _asking_for(point: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    """Returns the options by which the user asks for a graph of the Pareto set."""
    most = limits["flash"]
    flash = most is not None and point["flash"] > most
    return f"--max-sram {point['sram']}" + (f" --max-flash {point['flash']}" if flash else "")


def points(record: Mapping[str, Any]) -> Table:
    """Returns the table of the Pareto set."""
    answers = {True: "yes", False: "no", None: "not tried"}
    rows = (
        {
            "graph": f"{i}: {p['name']}",
            "fits": answers[p["fits"]],
            "verified": answers[p["verified"]],
            "written with": _asking_for(p, record["limits"]),
            "cycles": number(p["cycles"]),
            "SRAM, bytes": number(p["sram"]),
            "flash, bytes": number(p["flash"]),
        }
        for i, p in enumerate(record["points"])
    )
    note = (
        "Graphs that no other one beats in cycles, SRAM and flash at once. One that does not fit the limits of memory "
        "is not used. The commands compile and optimize write one of them with the options in its row, and --save "
        "writes point-0.tosa and on."
    )
    return Table.of("Pareto set", note, rows, words=4)


def seconds(given: Mapping[str, float]) -> Table:
    total = sum(given.values())
    rows = [(name_stage(k), f"{v:.2f}", share(v / total)) for k, v in given.items() if v >= 0.005] if total else []
    return Table("Seconds", "", ("stage", "seconds", "of all"), tuple(rows))
