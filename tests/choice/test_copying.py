"""Operands of a CONCAT that a depthwise convolution copies: the same values for fewer cycles of the whole graph, where
others read them too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cost_models.cache import PriceCache
from cost_models.vela_groups import VelaGroups
from eqsat.choice import copying
from eqsat.choice.choice import Choices, build
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps, loads
from eqsat.vela.compile import compile_graph
from eqsat.vela.facts import version
from extraction import check, extract
from tests.graphs import conv, finish

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
#: Where such a convolution takes fewer cycles than Vela's copy: 5.1 has copies on U55 and U65 for less.
PAYING = [t for t in TARGETS if not (version().startswith("5.1.") and t != "ethos-u85-256")]


@pytest.fixture(params=PAYING)
def model(request: pytest.FixtureRequest, pool: Pool, tmp_path: Path) -> Iterator[VelaGroups]:
    cache = PriceCache(tmp_path / "prices")
    yield VelaGroups(Target.of(request.param), pool, cache)
    cache.close()


def skip_connection() -> TensorGraph:
    """A value that a pooling and a CONCAT read, as in a U-Net."""
    g = TensorGraph()
    read = conv(g, g.add_input("x", (1, 48, 48, 16), "INT8"), 16, seed=1)
    joined = g.add("concat", [read, conv(g, read, 16, seed=2)], axis=3)
    return finish(g, g.add_with("max_pool2d", [read], makers.max_pool((2, 2), stride=(2, 2))), joined)


def copying_candidates(choices: Choices) -> list[int]:
    return [n for n, c in enumerate(choices.candidates) if c.copied]


def test_a_copy_has_every_value() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 3), "INT8")
    finish(g, copying.emit(g, x))
    values = np.stack([np.roll(np.arange(-128, 128), k) for k in range(3)], 1).reshape(1, 16, 16, 3).astype(np.int8)
    assert np.array_equal(g.evaluate([values])[0], values)


def test_what_others_read_too_is_copied_by_a_convolution(model: VelaGroups) -> None:
    """The written graph means what the source means, has the copy where its candidate says, and takes fewer cycles as a
    whole."""
    graph = skip_connection()
    choices = build(saturate(graph, []), model)
    plain = extract(choices.graph, "dag_greedy").choice
    (n,) = (n for n in copying_candidates(choices) if choices.candidates[n].copied == (0,))
    copied = {**plain, choices.candidates[n].cls: n}
    check(choices.graph, copied)
    before, (after, origin) = choices.tensor_graph(plain)[0], choices.tensor_graph(copied)
    for inputs in samples(domains(graph), 4):
        for a, b in zip(graph.evaluate(inputs), after.evaluate(inputs), strict=True):
            assert np.array_equal(a, b)
    made = [after.nodes[m].op for m, c in origin.items() if c == n]
    assert made == [op for op, _ in choices.candidates[n].steps] == ["depthwise_conv2d", "rescale", "concat"]
    cycles = [compile_graph(g, model.target, model.pool).cycles for g in (before, after)]
    assert cycles[1] < 0.95 * cycles[0]


@pytest.mark.slow
@pytest.mark.parametrize("target", PAYING)
def test_the_answer_copies_by_a_convolution_only_what_vela_copies(target: str) -> None:
    """One operand is read by a pooling too, the other is written where it belongs and stays so."""
    source = skip_connection()
    result = optimize_tosa(dumps(source), target, options=Options(max_sram="any", max_flash="any"))
    assert result.chosen == "eqsat" and result.verified and result.binary_verified
    assert [e.extractor for e in result.extractions if e.cycles == result.cycles] == ["copies"]
    assert min(e.cycles for e in result.extractions if e.extractor != "copies") > result.cycles
    assert loads(result.tosa, "the answer").op_counts()["depthwise_conv2d"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", PAYING[:1])
def test_no_copy_where_it_takes_too_much_flash(target: str) -> None:
    graph = dumps(skip_connection())
    free = optimize_tosa(graph, target, options=Options(max_sram="any", max_flash="any"))
    most = min(p.figures.flash for p in free.points)
    bound = optimize_tosa(graph, target, options=Options(max_sram="any", max_flash=most))
    assert "depthwise_conv2d" not in loads(bound.tosa, "the answer").op_counts()
    assert bound.cycles > free.cycles


def test_what_is_copied_is_not_written_in_place(model: VelaGroups) -> None:
    """Only the operands that are left as they are have terms with their producers."""
    choices = build(saturate(skip_connection(), []), model)
    (n,) = (n for n in copying_candidates(choices) if choices.candidates[n].copied == (0,))
    first, second = choices.candidates[n].operands
    read = {choices.candidates[m].cls for (r, m) in choices.graph.pair_costs if r == n}
    assert second in read and first not in read


@pytest.mark.parametrize("target", [t for t in TARGETS if t not in PAYING])
def test_no_candidate_where_velas_copy_takes_less(target: str, pool: Pool, tmp_path: Path) -> None:
    with closing(PriceCache(tmp_path / "prices")) as cache:
        assert not copying_candidates(
            build(saturate(skip_connection(), []), VelaGroups(Target.of(target), pool, cache))
        )
