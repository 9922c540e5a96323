"""Proposals on an oracle without Vela: what they ask for, and what they make of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import cost_models
from eqsat.choice.choice import Choices, build
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision, MemoryLimits
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.loop import Loop
from eqsat.search.proposal import Proposal, State
from eqsat.search.proposals.borders import borders
from eqsat.search.proposals.exact import exact
from eqsat.search.proposals.greedy import greedy
from eqsat.search.proposals.memory import memory
from eqsat.search.proposals.orders import orders
from eqsat.search.proposals.settings import settings
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import loads
from eqsat.tosa.flatbuffer import list_names, tensor_names
from eqsat.tosa.locations import read
from eqsat.vela.compile import Estimate
from eqsat.vela.table import InSram, Row
from tests.fake_oracle import FakeOracle, by_total, compiled, estimate
from tests.graphs import U55, located, operators, transposed_relus
from tests.term import graph

GREEDY = Options(extractor="dag_greedy", time_limit=1)


@cache
def choices() -> Choices:
    """Those of a graph with transposes that are of no use, at prices by closed forms, which compile nothing."""
    with Pool(1) as pool:
        model = cost_models.find("analytic")(U55, pool, None)
        return build(saturate(transposed_relus(), RULES), model)


def driven(
    propose: Proposal, figures: Callable[[Candidate], Estimate | None], state: State, **more: Any
) -> tuple[State, Loop]:
    loop = Loop(FakeOracle(figures), **more)
    return loop.drive(state, propose), loop


def transposes(c: Candidate) -> int:
    return c.graph.op_counts().get("transpose", 0)


def by_transposes(c: Candidate) -> Estimate:
    return estimate(1000 + 100 * transposes(c), sram=10)


def test_greedy_extraction_finds_the_graph_without_transposes() -> None:
    end, loop = driven(greedy, by_transposes, State(U55, GREEDY, choices=choices()))
    assert end.best is not None and transposes(end.best) == 0
    assert end.extracted == end.graphs and all(c.by == "dag_greedy" for c in end.graphs)
    assert {e.proposal for e in loop.extractions} == {"greedy"} and not loop.warnings


def test_the_extractor_of_the_options_begins_from_the_cheapest_choice() -> None:
    options = Options(extractor="tree_greedy", time_limit=1)
    first, _ = driven(greedy, by_transposes, State(U55, options, choices=choices()))
    end, loop = driven(exact, by_transposes, first)
    assert [e.extractor for e in loop.extractions] == ["tree_greedy"]
    same, none = driven(exact, by_transposes, State(U55, GREEDY, choices=choices()))
    assert not same.graphs and not none.extractions, "greedy extraction was made before"
    assert len(end.graphs) >= len(first.graphs)


def test_a_choice_that_fits_is_sought_where_the_fastest_does_not() -> None:
    """Here what has a TRANSPOSE takes less flash."""

    def figures(c: Candidate) -> Estimate:
        return estimate(1000 + 100 * transposes(c), flash=64 if transposes(c) else 128)

    first, _ = driven(greedy, figures, State(U55, GREEDY, choices=choices()))
    assert all(c.figures.flash == 128 for c in first.graphs)
    for flash, searched in ((100, True), (128, False)):
        within = State(U55, GREEDY, decision=Decision(limits=MemoryLimits(flash=flash)), choices=choices())
        _, loop = driven(memory, figures, within.with_graphs(first.graphs))
        assert bool(loop.extractions) == searched and not loop.warnings


def branches() -> TensorGraph:
    return graph("x:INT8[1,8,8,16]", lambda x: x.layer(16, seed=1).plus(x.layer(16, seed=2).layer(16, seed=3)))


def rows(graph: TensorGraph, copied: Sequence[int] = ()) -> tuple[Row, ...]:
    """A row of 100 cycles per convolution, and one of 50 per operand that is copied into a CONCAT."""
    names, nodes = list_names(graph), graph.nodes
    out = [row("Conv2D", names[n], 100) for n in graph.live() if nodes[n].op == "conv2d"]
    for n in (n for n in graph.live() if nodes[n].op == "concat"):
        out += [row("MemoryCopy", names[n], 50, graph.type(nodes[n].inputs[k]).elements) for k in copied]
    return tuple(out)


def row(operator: str, name: str, cycles: int, macs: int = 0, source: str = "") -> Row:
    return Row(operator, name, cycles, cycles, macs, 0, 0, 0, 0, source or name)


def start(graph: TensorGraph, found: Estimate, **more: Any) -> Compiled:
    return compiled("eqsat", graph, found, **more)


def test_an_order_that_is_better_is_kept() -> None:
    given = branches()
    tensors = tuple(
        InSram(f"n{n}", k, k + 1, 0, 64) for k, n in enumerate(given.live()) if given.nodes[n].op == "rescale"
    )
    first = start(given, estimate(100, sram=9, rows=rows(given), tensors=tensors))
    state = State(U55, GREEDY).setting_out(first)

    def figures(c: Candidate) -> Estimate:
        return estimate(100, sram=5, rows=rows(c.graph), tensors=tensors)

    end, loop = driven(orders, figures, state)
    assert end.best is not first and end.best is not None and end.best.figures.sram == 5
    assert end.best.is_rewritten and end.best.graph.op_counts() == given.op_counts()
    assert {e.extractor for e in loop.extractions} == {"order"}


def test_the_halves_of_the_arena_that_are_no_worse_are_tried() -> None:
    tensors = tuple(InSram(f"t{k}", k, k, 0, 100 * (k + 1)) for k in range(8))
    first = start(branches(), estimate(100, sram=800, tensors=tensors))

    def figures(c: Candidate) -> Estimate:
        (setting,) = c.settings
        size = setting.partition("=")[2]
        used = 800 if size == "Size" else int(size)
        return estimate(100 if used >= 500 else 200 if used == 300 else 300, used)

    end, _ = driven(settings, figures, State(U55, GREEDY).setting_out(first))
    assert end.best is not None and end.best.settings == ("--arena-cache-size=500",)
    limited = State(U55, GREEDY, decision=Decision(limits=MemoryLimits(sram=300))).setting_out(first)
    end, _ = driven(settings, figures, limited)
    assert end.best is not None and end.best.figures.sram == 300, "the limit is tried first"
    own = U55.with_flags(["--arena-cache-size=800", "--optimise=Performance"])
    assert driven(settings, figures, State(own, GREEDY).setting_out(first))[0].graphs == []


def test_a_copy_of_an_input_is_kept_where_an_operator_waits_for_it() -> None:
    given = graph("x:INT8[1,16,32,32]", lambda x: x.nhwc().layer(16))
    turn = next(n for n in given.live() if given.nodes[n].op == "transpose")
    names = list_names(given)
    waiting = row("Transpose", names[turn], 90_000)
    tensors = tuple(InSram(names[n], 0, 1, 0, 64) for n in given.live() if n not in given.inputs)
    first = start(given, estimate(90_000, rows=(waiting,), tensors=tensors))
    end, loop = driven(borders, lambda c: estimate(30_000), State(U55, GREEDY).setting_out(first))
    (found,) = end.graphs
    assert found is end.best and found.graph.signature() == given.signature()
    assert found.graph.op_counts()["depthwise_conv2d"] == 1 and found.by == "outside" and not loop.warnings


def test_a_given_graph_that_is_rewritten_keeps_its_locations() -> None:
    """Its tensors are named as it was read."""
    made = branches()
    buffer = located(made)
    given = by_total(Candidate("stock", loads(buffer), buffer, tensors=tensor_names(buffer)), estimate(9))
    found = given.rewrite(given.graph, "order")
    assert (found.name, found.given, found.is_rewritten) == ("eqsat", "stock", True)
    assert len(read(found.tosa)) == len(operators(made)) and given.nodes == tensor_names(buffer)
