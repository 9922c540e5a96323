"""What SLICEs cost by the choice graph is what Vela copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cost_models.cache import PriceCache
from cost_models.vela_groups import VelaGroups
from eqsat.choice.choice import Choices, build
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import compile_graph
from eqsat.vela.facts import numbers, version
from extraction import extract
from tests.graphs import clamp, conv, finish, rescale, reshape, transpose

WHOLE, PART = (1, 16, 8, 32), (1, 9, 8, 32)


def part(g: TensorGraph, x: int, first: int = 3) -> int:
    return g.add("slice", [x], start=(0, first, 0, 0), size=PART)


def _multiplied(g: TensorGraph, x: int, multiplier: int = 1 << 30) -> int:
    wide = g.add_with("rescale", [x], makers.rescale("INT32", multiplier, 30, in_zp=3))
    other = g.add_const(np.full(PART, 3, np.int32), "INT32", PART)
    return rescale(g, g.add_with("mul", [wide, other], makers.mul()), "INT8", shift=(36,))


def _summed(g: TensorGraph, x: int) -> int:
    """A sum as ExecuTorch writes it: the larger operand has a factor of 2**19."""
    other = clamp(g, g.add_input("other", PART, "INT8"), -9, 9)
    factors = ((1518500250, 12), (1 << 30, 11))
    wide = [
        g.add_with("rescale", [v], makers.rescale("INT32", *factor, in_zp=3)) for v, factor in zip((x, other), factors)
    ]
    return rescale(g, g.add("add", wide), "INT8", shift=(50,))


def _joined(g: TensorGraph, x: int) -> int:
    return g.add("concat", [x, clamp(g, g.add_input("other", PART, "INT8"), -9, 9)], axis=3)


#: {what reads the part: (how it is written, whether it reads a copy)}
READERS: dict[str, tuple[Callable[[TensorGraph, int], int], bool]] = {
    "convolution": (lambda g, x: conv(g, x, 8, 1), False),
    "max pool": (lambda g, x: g.add_with("max_pool2d", [x], makers.max_pool((2, 2), pad=(0, 1, 0, 0))), False),
    "clamp": (lambda g, x: clamp(g, x, -50, 70), False),
    "rescale": (lambda g, x: rescale(g, x, "INT8", multiplier=(1518500250,), shift=(31,)), False),
    "product": (_multiplied, False),
    "sum": (_summed, False),
    "concat": (_joined, False),
    "view without ones": (lambda g, x: clamp(g, reshape(g, x, 9, 8, 32), -50, 70), False),
    "view": (lambda g, x: clamp(g, reshape(g, x, 1, 72, 1, 32), -50, 70), True),
    "transpose": (lambda g, x: clamp(g, transpose(g, x, 0, 2, 1, 3), -50, 70), True),
    "slice": (lambda g, x: clamp(g, g.add("slice", [x], start=(0, 1, 2, 3), size=(1, 4, 5, 16)), -50, 70), True),
}


def _whole(g: TensorGraph) -> int:
    return clamp(g, g.add_input("x", WHOLE, "INT8"), -100, 90)


def _model(target: str, pool: Pool, tmp_path) -> VelaGroups:
    return VelaGroups(Target.of(target), pool, PriceCache(tmp_path / "prices"))


def _charged(choices: Choices, choice: dict[int, int]) -> float:
    """Cycles that a choice is charged for copies of parts."""
    copies = {n for c, n in choice.items() if c >= len(choices.classes)}
    parts = {n for n in choice.values() if n < len(choices.candidates) and choices.candidates[n].is_part}
    return sum(d for (n, m), d in choices.graph.pair_costs.items() if n in copies and m in parts)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_a_part_costs_what_vela_copies(target: str, reader: str, pool: Pool, tmp_path) -> None:
    write, copied = READERS[reader]
    copied = copied and not (reader == "transpose" and Target.of(target).family.transposes.fused)
    g = TensorGraph()
    read = write(g, part(g, _whole(g)))
    model = _model(target, pool, tmp_path)
    choices = build(saturate(finish(g, read), []), model)
    found = extract(choices.graph)
    written, _ = choices.tensor_graph(found.choice)
    rows = [r for r in compile_graph(written, model.target, pool).rows if r.operator == "MemoryCopy"]
    assert bool(_charged(choices, found.choice)) == copied
    if reader not in ("concat", "transpose"):  # the copies that CONCATs and, on U85, TRANSPOSEs are
        assert bool(rows) == copied


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256"])
def test_a_part_is_copied_once_for_all_its_readers(target: str, pool: Pool, tmp_path) -> None:
    model = _model(target, pool, tmp_path)
    charged = []
    for turned in (1, 3):
        g = TensorGraph()
        x = part(g, _whole(g))
        readers = [clamp(g, transpose(g, x, 0, 2, 1, 3), -50, 60 + k) for k in range(turned)]
        choices = build(saturate(finish(g, clamp(g, x, -40, 40), *readers), []), model)
        charged.append(_charged(choices, extract(choices.graph).choice))
    assert charged[0] == charged[1] > 0


def test_an_output_is_a_copy(pool: Pool, tmp_path) -> None:
    g = TensorGraph()
    choices = build(saturate(finish(g, part(g, _whole(g))), []), _model("ethos-u55-128", pool, tmp_path))
    assert _charged(choices, extract(choices.graph).choice) > 0


@pytest.mark.parametrize(
    "target, in_place", [("ethos-u55-128", False), ("ethos-u65-256", False), ("ethos-u85-256", True)]
)
def test_a_widening_rescale_that_does_not_fuse_reads_the_whole_on_u55(
    target: str, in_place: bool, pool: Pool, tmp_path
) -> None:
    """Vela makes a sum and a product of it there, of all the tensor (`tests` ask by the commands' cycles)."""
    model, cycles = _model(target, pool, tmp_path), []
    for sliced in (True, False):
        g = TensorGraph()
        x = _whole(g) if sliced else clamp(g, g.add_input("x", PART, "INT8"), -100, 90)
        read = part(g, x) if sliced else x
        graph = finish(g, _multiplied(g, read, 1518500250))
        rows = compile_graph(graph, model.target, pool).rows
        cycles.append(sum(r.corrected for r in rows if r.operator != "Clamp"))
        choices = build(saturate(graph, []), model)
        if sliced:
            assert bool(_charged(choices, extract(choices.graph).choice)) != in_place
    if numbers(version()) >= (5, 2):  # before, it computes the part alone, which is charged as a copy all the same
        assert (cycles[0] <= 1.1 * cycles[1]) == in_place


def test_a_transpose_of_a_part_costs_no_more_than_of_a_whole_on_u85(pool: Pool, tmp_path) -> None:
    """The whole has another reader, so that no TRANSPOSE fuses into what computes it."""
    model, cycles = _model("ethos-u85-256", pool, tmp_path), []
    for sliced in (True, False):
        g = TensorGraph()
        x = part(g, _whole(g)) if sliced else clamp(g, g.add_input("x", PART, "INT8"), -100, 90)
        graph = finish(g, clamp(g, transpose(g, x, 0, 2, 1, 3), -50, 70), clamp(g, x, -40, 40))
        rows = compile_graph(graph, model.target, pool).rows
        cycles.append(sum(r.corrected for r in rows if r.operator in ("MemoryCopy", "Transpose")))
    assert cycles[0] <= cycles[1]
