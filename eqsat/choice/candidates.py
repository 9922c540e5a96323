"""Candidates: the ways to compute each e-class that the outputs need, each with its price.

    enumerate   every e-node that can be computed, as units that a cost model understands
    price       by the cost model; a candidate that a guard forbids has infinite cycles
    fuse        pairwise terms: cycles saved if Vela computes two neighbours as one operator

A Move has one candidate whose TOSA steps the cost model settles.
A second one is a single native TRANSPOSE, on targets that can fuse it into its producer.
A widening RESCALE is written once per reader, so its price is a pairwise term of each reader.
It has a price of its own only if it is an output of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from networkx.utils import UnionFind

from cost_models.closed_form import estimate_cycles
from cost_models.fusion import SUMS, is_part
from cost_models.legality import is_cut, legal_transpose
from cost_models.protocol import CostModel, Price, Unit
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.options.options import check_prices
from eqsat.target import Family
from eqsat.target.staging import merge_axes
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Attrs, DType, GraphError, Shape, Steps, attrs_of
from eqsat.vela.defects import Guard, price_guards, remedies
from eqsat.vela.patterns import Operator
from extraction.derivation import derive


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute an e-class.

    cls, operands: positions among the classes that can be chosen from.
    price: its price, with the TOSA operators that have this price.
    unit: the priced unit, None for a loaded run.
    """

    enode: ENode
    cls: int
    operands: tuple[int, ...]
    price: Price
    unit: Unit | None = None

    @property
    def steps(self) -> Steps:
        """The TOSA operators that compute it, in order."""
        return self.price.steps

    @property
    def cycles(self) -> float:
        """Cycles without fusion; inf if it must not be used."""
        return self.price.cycles

    @property
    def priced(self) -> Unit:
        """The priced unit, of a run that was not loaded."""
        assert self.unit is not None, "a loaded run's candidates are priced"
        return self.unit

    @property
    def usable(self) -> bool:
        return not math.isinf(self.cycles)

    @property
    def is_view(self) -> bool:
        """Whether it is a RESHAPE, which is another shape of its operand's value."""
        return len(self.steps) == 1 and self.steps[0][0] == "reshape"

    @property
    def viewed_first(self) -> tuple[int, ...] | None:
        """The shape in which a movement views its operand before it moves data; None without a view."""
        return dict(self.steps[0][1])["shape"] if len(self.steps) > 1 and self.steps[0][0] == "reshape" else None

    @property
    def is_widening(self) -> bool:
        """Whether it is a RESCALE to INT32, which is written once per reader and fuses into it.

        On U55 and U65 a guard forbids that several readers share one (`eqsat/vela/defects.py`).
        """
        return self.enode.op == "rescale" and DType.of(dict(self.enode.attrs)["dtype"]).is_accumulator

    @property
    def is_part(self) -> bool:
        """Whether it is a SLICE whose readers read it in place or pay for a copy.

        A SLICE of sums has its own price: its readers cost more than behind a whole tensor.
        """
        return is_part(self.priced)


def reachable(frozen: Frozen, roots: Sequence[int]) -> list[int]:
    """Returns the classes that roots and inputs need and that can be computed. Raises GraphError without a root."""
    computable = derive((e.cls, e.children) for nodes in frozen.classes for e in nodes)
    if missing := [r for r in roots if r not in computable]:
        raise GraphError(f"{len(missing)} output classes of the e-graph cannot be computed from the inputs")
    seen = set(roots) | {frozen.handle[i] for i in frozen.source.inputs}
    stack = list(seen)
    while stack:
        for e in frozen.classes[stack.pop()]:
            if all(ch in computable for ch in e.children):
                new = [ch for ch in e.children if ch not in seen]
                seen.update(new)
                stack.extend(new)
    return sorted(seen)


def candidates(frozen: Frozen, classes: Sequence[int], model: CostModel) -> list[Candidate]:
    """Returns all candidates for `classes`, in their order, with prices. Raises PluginError for a price below 0."""
    position = {c: i for i, c in enumerate(classes)}
    family = model.target.family
    guards = remedies(Guard, family)
    units = list(_enumerate(frozen, classes, family))
    prices, source = _prices(units, model), frozen.source
    given = {source.nodes[n].attrs for n in source.live() if source.nodes[n].op == "rescale"}
    moves = _illegal_moves(source, family)
    out: list[Candidate] = []
    for (e, unit), price in zip(units, prices, strict=True):
        if math.isinf(price.cycles) and unit.move and (own := moves.get((unit.move, unit.result.dtype))):
            price = Price(estimate_cycles(own, model.target) if model.in_cycles else 1.0, own.steps)
        operands, legal = tuple(position[c] for c in e.children), _legal(unit, price, given, guards)
        out.append(Candidate(e, position[e.cls], operands, legal, unit))
    return out


def _prices(units: Sequence[tuple[ENode, Unit]], model: CostModel) -> list[Price]:
    """Returns the price of each unit; infinite for one that Vela cuts, if its class can be computed without such."""
    out = [Price(math.inf, unit.steps) for _, unit in units]
    is_plain = [not is_cut(unit) for _, unit in units]
    for is_so in (True, False):
        otherwise = derive((e.cls, e.children) for (e, _), price in zip(units, out) if price.cycles < math.inf)
        chosen = [k for k, (e, _) in enumerate(units) if is_plain[k] == is_so and e.cls not in otherwise]
        found = [units[k][1] for k in chosen]
        for k, price in zip(chosen, check_prices(model.price(found) if found else [], found, model), strict=True):
            out[k] = price
    return out


def _enumerate(frozen: Frozen, classes: Sequence[int], family: Family) -> Iterator[tuple[ENode, Unit]]:
    known = set(classes)
    leaves = {e.cls: e for c in classes for e in frozen.classes[c] if e.op in ("input", "const")}
    for e in (e for c in classes for e in frozen.classes[c]):
        if known.issuperset(e.children):
            yield from ((e, unit) for unit in _units(e, frozen, leaves, family))


def _units(e: ENode, frozen: Frozen, leaves: Mapping[int, ENode], family: Family) -> list[Unit]:
    operands = tuple(frozen.type_of(c) for c in e.children)
    result = frozen.type_of(e.cls)
    if e.move is not None and e.move.is_view:
        return [Unit((("reshape", attrs_of({"shape": e.move.out_shape})),), operands, result)]
    read = [leaves.get(c) for c in e.children]
    constants = tuple(dict(leaf.attrs)["value"] if leaf and leaf.op == "const" else None for leaf in read)
    if e.move is None:
        return [_in_few_commands(Unit(((e.op, e.attrs),), operands, result, constants))]
    from_input = read[0] is not None and read[0].op == "input"
    out = [Unit((), operands, result, constants, e.move, from_input)]
    direct = e.move.direct()
    if family.transposes.fused and direct is not None and family.transposes.native_of(direct) is not None:
        out.append(Unit((("transpose", attrs_of({"perms": direct})),), operands, result, from_input=from_input))
    return out


def _in_few_commands(unit: Unit) -> Unit:
    """Returns a sum or product of INT32 in the shapes for which Vela makes few commands, as it is written."""
    if unit.op not in SUMS or not all(DType.of(t.dtype).is_wide for t in unit.operands):
        return unit
    shapes = merge_axes([t.shape for t in unit.operands])
    if shapes is None:
        return unit
    operands = tuple(replace(t, shape=s) for t, s in zip(unit.operands, shapes, strict=True))
    return replace(unit, operands=operands, result=infer(unit.op, unit.steps[0][1], operands))


def _illegal_moves(source: TensorGraph, family: Family) -> dict[tuple[Move, str], Unit]:
    """Returns the source's own TRANSPOSEs that are not legal: they stay possible."""
    out = {}
    for n in source.live():
        node = source.nodes[n]
        operand = source.type(node.inputs[0]) if node.op == "transpose" else None
        if operand is not None and not legal_transpose(operand.shape, node.dtype, family):
            move = Move.transpose(operand.shape, node.attr("perms"))
            out[move, node.dtype] = Unit((("transpose", node.attrs),), (operand,), source.type(n))
    return out


def _legal(unit: Unit, price: Price, given: Collection[Attrs], guards: Collection[Guard]) -> Price:
    """Returns the price under the guards. given: attributes of the source's own RESCALEs, which no guard forbids."""
    operator = Operator(unit.op, unit.steps[0][1] if unit.steps else (), unit.operands, unit.result)
    cycles = price.cycles if operator.attrs in given else price_guards(price.cycles, operator, guards)
    return price if cycles == price.cycles else replace(price, cycles=cycles)


def by_class(found: Sequence[Candidate], n_classes: int) -> list[list[int]]:
    """Returns the numbers of the candidates of each class."""
    out: list[list[int]] = [[] for _ in range(n_classes)]
    for n, c in enumerate(found):
        out[c.cls].append(n)
    return out


def fusions(
    found: Sequence[Candidate], nodes: Sequence[Sequence[int]], model: CostModel
) -> dict[tuple[int, int], float]:
    """Returns {(reader, read): cycles that choosing both adds, mostly below 0}. nodes: the candidates of each class."""
    units = [c.priced for c in found]
    cycles = {c.priced: c.cycles for c in found}
    operand_units = [[units[k] for cls in set(c.operands) for k in nodes[cls]] for c in found]
    usable = [[m for m in members if found[m].usable] for members in nodes]
    pairs: dict[tuple[int, int], float] = {}
    for n, reader in ((n, c) for n, c in enumerate(found) if c.usable):
        for m in (m for cls in set(reader.operands) for m in usable[cls]):
            read = found[m]
            if read.is_part:
                continue
            delta = read.cycles if read.is_widening else 0.0
            fusion = model.fusion(units[n], units[m], operand_units[m])
            if fusion is not None:
                delta -= fusion.saving(reader.cycles, read.cycles, cycles)
            if delta:
                pairs[n, m] = delta
    return pairs


# Costs of views and of parts, as classes that a ChoiceGraph gets besides those of the e-graph.
#
# Vela removes every RESHAPE (RemoveReshape in regor's graphir_optimiser.cpp). Outputs of the graph are readers, too.
# A tensor with one reader takes the shape of that RESHAPE.
# A tensor with several readers is copied, in its own shape, for each RESHAPE to another shape.
# So a value that is read in k shapes is copied k - 1 times if each shape is viewed from the one before.
# The copies are in all shapes but the last, and the producer's shape may be any of them.
#
# Classes that views connect hold one value. For each shape in which it may be read, a class with one node costs a copy
# in this shape, and the readers need this class. Another class names the last shape, which costs nothing.
# A value that is computed twice, in two shapes, is charged one copy too much.
# Views of constants cost nothing, nor do those of a widening RESCALE, since every reader has its own.
#
# Most operators read a part of a tensor in place, and then the SLICE costs nothing (`cost_models/fusion.py`).
# Other readers, and outputs of the graph, need a copy, which Vela makes once for all of them.
# A class with one node stands for this copy; it reads the value, and costs something only if the value is a SLICE.


@dataclass(slots=True)
class StorageCosts:
    """The classes and terms that views add to a choice graph.

    rows: classes to append.
    pairs: {(node, node): change of the cost in cycles}.
    reads: {node: classes that it reads besides its operands}.
    roots: further roots.
    last: {class: the class that names the last shape of its value}.
    shapes: {node of such a class: the shape}.
    """

    rows: list[list[tuple[float, list[int]]]] = field(default_factory=list)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    reads: dict[int, list[int]] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)


def view_costs(shapes: Sequence[Shape], candidates: Sequence[Candidate], roots: Sequence[int]) -> StorageCosts:
    """Returns the costs of views. shapes: of each class. roots: the classes that are outputs."""
    viewing = [c for c in candidates if c.price.copied is not None and c.usable]
    value_of = UnionFind(range(len(shapes)))
    for c in viewing:
        if c.is_view:
            value_of.union(c.cls, c.operands[0])
    # {value: {shape: cycles of a copy in it}}, without values whose views cost nothing or have no price
    copies: dict[int, dict[Shape, float]] = {}
    for c in viewing:
        if c.price.copied is not None and math.isfinite(c.price.copied):
            copies.setdefault(value_of[c.operands[0]], {})[shapes[c.operands[0]]] = c.price.copied
    for c in candidates:
        if c.is_widening or c.enode.op == "const":
            copies.pop(value_of[c.cls], None)
    # {value: {shape: its readers, as numbers of candidates; None is an output of the graph}}
    readers: dict[int, dict[Shape, list[int | None]]] = {}
    for n, c in enumerate(candidates):
        for operand in dict.fromkeys(c.operands) if not c.is_view else ():
            by_shape = readers.setdefault(value_of[operand], {})
            by_shape.setdefault(c.viewed_first or shapes[operand], []).append(n)
    for cls in roots:
        readers.setdefault(value_of[cls], {}).setdefault(shapes[cls], []).append(None)
    out, n_nodes = StorageCosts(), len(candidates)
    for value, by_shape in readers.items():
        if value in copies and len(by_shape) > 1:
            _charge(out, value, by_shape, copies[value], len(shapes), n_nodes)
            n_nodes += 2 * len(by_shape)
    out.last = {c: out.last[value_of[c]] for c in range(len(shapes)) if value_of[c] in out.last}
    return out


def _charge(
    out: StorageCosts,
    value: int,
    by_shape: Mapping[Shape, Sequence[int | None]],
    copies: Mapping[Shape, float],
    n_classes: int,
    n_nodes: int,
) -> None:
    """Appends the classes of one value.

    The class that names its last shape has a node per shape, numbered from `n_nodes`.
    Such a node cancels the cost of the one node in the class of its shape.
    """
    names, most = n_classes + len(out.rows), max(copies.values())
    out.rows.append([(0.0, [])] * len(by_shape))
    out.last[value] = names
    for k, (shape, readers) in enumerate(by_shape.items()):
        cls, cycles = n_classes + len(out.rows), copies.get(shape, most)
        out.rows.append([(cycles, [names])])
        out.pairs[n_nodes + len(by_shape) + k, n_nodes + k] = -cycles
        out.shapes[n_nodes + k] = shape
        for n in readers:
            if n is None:
                out.roots.append(cls)
            else:
                out.reads.setdefault(n, []).append(cls)


def add_part_costs(
    out: StorageCosts,
    candidates: Sequence[Candidate],
    nodes: Sequence[Sequence[int]],
    roots: Collection[int],
    model: CostModel,
) -> None:
    """Appends the copies of parts to `out`, which has those of views. nodes: the candidates of each class."""
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
