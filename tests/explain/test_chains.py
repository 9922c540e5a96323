"""Proofs: every step is what its rule does by itself, and nothing rests on what came later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget
from eqsat.explain.chains import Chains, ExplainError, Proof
from eqsat.explain.record import FOREVER, History, is_enode, record
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph
from tests.explain.step_check import holds
from tests.graphs import channel_shuffle, finish, relu, residual, transpose, transposed_relus
from tests.random_graphs import random_graph
from tests.rules.checks import cut

BUDGET = Budget(nodes=3000)


def halves() -> TensorGraph:
    """Slices, relus and a concat between transposes: rules with vectors, placeholders and relations."""
    g = TensorGraph()
    x = transpose(g, g.add_input("x", (1, 4, 4, 8), "INT8"), 0, 3, 1, 2)
    low, high = cut(g, x, (0, 0, 0, 0), (1, 4, 4, 4)), cut(g, x, (0, 4, 0, 0), (1, 4, 4, 4))
    joined = g.add("concat", (relu(g, low, -9), relu(g, high, -9)), axis=1)
    return finish(g, transpose(g, joined, 0, 2, 3, 1))


def circular() -> TensorGraph:
    """A proof that needs what it is to prove, on its shortest way."""
    return random_graph(6)


GRAPHS = [transposed_relus, channel_shuffle, halves, circular]


def history_of(graph: TensorGraph) -> History:
    return record(graph, RULES, BUDGET)


def all_proofs(history: History) -> list[Proof]:
    """From the oldest e-node of each final class to each e-node in it."""
    chains, out = Chains(history), []
    for rows in history.lineage.values():
        out += [chains.prove(rows[0], r) for r in rows if history.life[r][1] == FOREVER]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("build", GRAPHS)
def test_every_e_node_has_a_proof_of_matched_instances(build: Callable[[], TensorGraph]) -> None:
    proofs = all_proofs(history_of(build()))
    links = [link for p in proofs for q in p.proofs() for link, _ in q.links]
    assert len(proofs) > 20 and links
    assert all(link.match for link in links)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_a_way_that_needs_itself_is_not_the_only_one(seed: int) -> None:
    """Larger graphs of this kind."""
    assert len(all_proofs(record(random_graph(seed), RULES, Budget(nodes=1000)))) > 50


@pytest.mark.slow
@pytest.mark.parametrize("build", GRAPHS)
def test_every_step_holds_by_its_rule_alone(build: Callable[[], TensorGraph]) -> None:
    history = history_of(build())
    links = {
        (link.rule, link.step, link.left, link.right): link
        for p in all_proofs(history)
        for q in p.proofs()
        for link, _ in q.links
    }
    chosen = list(links.values())[:: max(1, len(links) // 20)]
    failed = [link for link in chosen if not holds(history, link)]
    assert failed == []


def test_a_false_step_does_not_hold() -> None:
    """The same check refuses another rule for a true step, and another right side."""
    history = history_of(transposed_relus())
    links = [link for p in all_proofs(history) for link, _ in p.links]
    push = next(k for k in links if k.rule == "push-unary")
    identity = next(k for k in links if k.rule == "move-identity")
    assert holds(history, push) and holds(history, identity)
    assert not holds(history, replace(push, rule="move-move"))
    assert not holds(history, replace(identity, left=push.left, step=push.step))


@pytest.mark.parametrize("build", GRAPHS)
def test_a_proof_is_a_chain_and_rests_on_the_past(build: Callable[[], TensorGraph]) -> None:
    """Neighbouring terms are the same call; where operands differ, a proof for them is given, and it ends in time."""
    history = history_of(build())

    def same(one, other, needs: list[Proof]) -> bool:
        given = {(p.start[2], p.end[2]) for p in needs} | {(p.end[2], p.start[2]) for p in needs}
        pairs = [(a, b) for a, b in zip(history.operands(one), history.operands(other), strict=True) if a != b]
        return one[0] == other[0] and all(p in given or history.origin[p[0]] == history.origin[p[1]] for p in pairs)

    for proof in all_proofs(history):
        for p in proof.proofs():
            at = p.start
            for link, needs in p.links:
                assert same(at, link.start, needs)
                old = [
                    *link.match.seen.values(),
                    *(r for r in link.match.made.values() if history.life.get(r, (FOREVER,))[0] < link.step),
                ]
                for row in old:
                    assert history.life[row][0] < link.step
                    assert history.origin_at(row[2], link.step - 1) == row or any(
                        n.end == row and all(k.step < link.step for k, _ in n.links) for n in needs
                    )
                at = link.end
            assert same(at, p.end, p.needs)


def test_the_chain_of_a_pair_of_transposes() -> None:
    """The second transpose equals the first one's operand by composition and removal of the identity."""
    g = TensorGraph()
    x = relu(g, g.add_input("x", (1, 4, 4, 8), "INT8"), -7)
    y = transpose(g, transpose(g, x, 0, 3, 1, 2), 0, 2, 3, 1)
    history = history_of(finish(g, y))
    loaded = {r[1][0]: r[2] for r in history.by_name["Node"] if history.life[r][0] == 0}
    proof = Chains(history).prove(history.origin[loaded[y]], history.origin[loaded[x]])
    assert [link.rule for link, _ in proof.links] == ["move-move", "move-identity"]
    with pytest.raises(ExplainError):
        Chains(history).prove(history.origin[loaded[y]], history.origin[loaded[x]], limit=1)


@pytest.mark.slow
def test_recording_gives_the_same_e_graph() -> None:
    for build in (residual, halves):
        plain, recorded = saturate(build(), RULES, BUDGET), history_of(build()).frozen
        assert (recorded.n_nodes, recorded.saturation.stop) == (plain.n_nodes, plain.saturation.stop)
        assert sorted(sorted(e.op for e in c) for c in recorded.classes) == sorted(
            sorted(e.op for e in c) for c in plain.classes
        )


def test_rows_have_one_life_and_classes_end_in_one() -> None:
    history = history_of(halves())
    for row, (birth, death) in history.life.items():
        assert 0 <= birth < death
        if is_enode(row[0]) and death == FOREVER:
            assert history.at(row, FOREVER) == row
