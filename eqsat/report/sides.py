"""The graphs that the page of a compilation compares, with Vela's table of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqsat.ground.table import Table
from eqsat.report.graphs import NodeFacts
from eqsat.search.comparison import tables
from eqsat.search.figures import GraphFigures, read
from eqsat.search.origins import of_buffer, table
from eqsat.search.result import Result
from eqsat.search.run import Run
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
    rows: Vela's table with the origins and lower bound of each operator; empty if not known.
    Its cycles may be calibrated ones.
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
    record: the figures, as in `Result.record`.
    calibrated: whether cycles of rows are calibrated; else they are Vela's.
    run: the search, None if no alternative was found.
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
        """Whose cycles those of operators are, in words."""
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
