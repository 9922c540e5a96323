"""Proofs: every step is what its rule does by itself, and nothing rests on what came later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget
from eqsat.egraph.log import Row
from eqsat.explain.closure import Link, Proof
from eqsat.explain.record import Record
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph
from tests.explain.step_check import dated_record, holds
from tests.graphs import channel_shuffle, residual, transposed_relus
from tests.random_graphs import random_graph
from tests.sweeps import some
from tests.term import inputs, outputs

BUDGET = Budget(nodes=3000)


def halves() -> TensorGraph:
    """Slices, relus and a concat between transposes: rules with vectors, placeholders and relations."""
    y = inputs("x:INT8[1,4,4,8]")[0].nchw()
    low, high = (y.part(k, 4, 1).relu(-9) for k in (0, 4))
    return outputs(low.concat(high, axis=1).nhwc())


def circular() -> TensorGraph:
    """Values that equal an operator on themselves, where a proof may need what it is to prove."""
    return random_graph(6)


GRAPHS = [transposed_relus, channel_shuffle, halves, circular]


def record_of(build: Callable[[], TensorGraph]) -> Record:
    return dated_record(build(), BUDGET)


def all_proofs(record: Record) -> list[Proof]:
    """From the e-node that made each final class to each e-node in it."""
    closure = record.closure
    rows = dict.fromkeys(closure.at(row) for row in closure.terms.values())
    return [record.closure.prove(row.cls, row) for row in rows]


def all_links(record: Record) -> list[Link]:
    """Those of all proofs, each instance once."""
    links = (link for p in all_proofs(record) for q in p.proofs() for link, _ in q.links)
    return list({link.time: link for link in links}.values())


@pytest.mark.slow
@pytest.mark.parametrize("build", some([halves, circular, *GRAPHS[:2], residual], 2))
def test_the_record_has_every_e_node_and_joins_what_the_rules_join(build: Callable[[], TensorGraph]) -> None:
    """Each class of a saturation without a log is one class of the record, and no two are the same one."""
    record, frozen = record_of(build), saturate(build(), RULES, BUDGET)
    found = {c: record.final(n) for n, c in frozen.handle.items()}
    waiting = [e for nodes in frozen.classes for e in nodes]
    while waiting:
        later = []
        for e in waiting:
            if set(e.children) <= found.keys():
                row = record.row(e, frozen.type_of(e.cls), [found[c] for c in e.children])
                assert row is not None and found.setdefault(e.cls, row.cls) == row.cls
            else:
                later.append(e)
        assert len(later) < len(waiting)
        waiting = later
    assert len(set(found.values())) == len(found) > len(frozen.handle)


@pytest.mark.slow
@pytest.mark.parametrize("build", some([halves, circular, *GRAPHS[:2]], 2))
def test_every_step_holds_by_its_rule_alone(build: Callable[[], TensorGraph]) -> None:
    record = record_of(build)
    links = all_links(record)
    assert len(links) > 20
    assert [link for link in links[:: max(1, len(links) // 20)] if not holds(record, link)] == []


def test_a_false_step_does_not_hold() -> None:
    """The same check refuses another rule for a true step, and another left side."""
    record = record_of(transposed_relus)
    push = next(k for k in all_links(record) if k.instance.rule == "push-unary")
    identity = next(k for k in all_links(record) if k.instance.rule == "move-identity")
    assert holds(record, push) and holds(record, identity)
    assert not holds(record, push._replace(instance=push.instance._replace(rule="move-move")))
    false = identity.instance._replace(left=push.instance.left)
    assert not holds(record, Link(false, push.time, False))


@pytest.mark.parametrize("build", GRAPHS)
def test_a_proof_is_a_chain_and_rests_on_the_past(build: Callable[[], TensorGraph]) -> None:
    """Neighbouring terms are the same call; where operands differ, a proof for them is given, and it ends in time."""
    check_chains(record_of(build))


@pytest.mark.slow
@pytest.mark.parametrize("seed", some([8, 5], 1))
def test_the_chains_of_larger_graphs(seed: int) -> None:
    assert check_chains(dated_record(random_graph(seed), Budget(nodes=1000))) > 50


def check_chains(record: Record) -> int:
    """Checks all proofs of a record, and returns how many there are."""
    terms, proofs = record.closure.terms, all_proofs(record)

    def same(one: Row, other: Row, needs: list[Proof]) -> bool:
        given = {(p.start.cls, p.end.cls) for p in needs if p.end == terms[p.end.cls]}
        pairs = [(a, b) for a, b in zip(one.operands, other.operands, strict=True) if a != b]
        return one[:2] == other[:2] and all(p in given for p in pairs)

    def latest(proof: Proof) -> int:
        return max((link.time for p in proof.proofs() for link, _ in p.links), default=-1)

    for proof in proofs:
        for p in proof.proofs():
            at = p.start
            for link, needs in p.links:
                assert same(at, link.start, needs)
                for row in (*link.instance.seen, *link.instance.made):
                    if terms[row.cls] != row:
                        known = [n for n in needs if (n.start, n.end) == (terms[row.cls], row)]
                        assert known and all(latest(n) < link.time for n in known)
                at = link.end
            assert same(at, p.end, p.needs)
            assert p not in [q for _, needs in p.links for n in needs for q in n.proofs()]
    return len(proofs)


def test_the_chain_of_a_pair_of_transposes() -> None:
    """The second transpose equals the first one's operand by composition and removal of the identity."""
    x = inputs("x:INT8[1,4,4,8]")[0].relu(-7)
    y = x.nchw().nhwc()
    record = Record(outputs(y), RULES, BUDGET)
    proof = record.closure.prove(record.loaded[y.n], record.closure.at(record.explicit(x.n)))
    assert [link.instance.rule for link, _ in proof.links] == ["move-move", "move-identity"]
    with pytest.raises(KeyError):
        record.closure.prove(record.loaded[y.n], record.closure.at(record.closure.terms[0]))
