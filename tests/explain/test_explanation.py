"""Verdicts, their cycles and the pictures, on runs compiled by Vela."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget
from eqsat.egraph.log import Row
from eqsat.explain import ExplainError, Explanation, explain, view
from eqsat.explain.record import Link, Proof, Record
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from extraction import extract
from tests.explain.step_check import dated_record, holds
from tests.graphs import U85, channel_shuffle, located, residual, transposed_relus
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


def optimized(build, where: Path, origins: bool = False, **options) -> Result:
    """origins: whether each operator has one."""
    given = located(build()) if origins else dumps(build())
    own = Options(effort=1, cache=where / "prices", **options)
    return optimize_tosa(given, U85, options=own, name=build.__name__)


@pytest.fixture(scope="module")
def relus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Explanation]:
    result = optimized(transposed_relus, tmp_path_factory.mktemp("relus"), origins=True)
    return result, explain(result)


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Explanation]:
    result = optimized(channel_shuffle, tmp_path_factory.mktemp("shuffled"))
    return result, explain(result)


def ops(e: Explanation, op: str) -> list[str]:
    return [v.verdict for v in e.ops.values() if v.op.startswith(op)]


def test_what_became_of_a_pair_of_transposes(relus: tuple[Result, Explanation]) -> None:
    _, e = relus
    assert ops(e, "transpose") == ["removed", "removed"]
    assert set(ops(e, "conv2d")) <= {"stayed", "moved"}  # moved: it reads blocks of pixels as channels
    assert set(ops(e, "clamp")) <= {"moved", "removed"}
    for v in e.ops.values():
        assert v.verdict == "stayed" or v.rules
    last = next(v for v in reversed(e.ops.values()) if v.op.startswith("transpose"))
    assert {"move-move", "move-identity"} <= set(last.rules) and {"push-unary", "pull-unary"} & set(last.rules)


@pytest.mark.parametrize("case", ["relus", "shuffled"])
def test_cycles_are_those_of_the_graphs_and_none_is_lost(case: str, request: pytest.FixtureRequest) -> None:
    result, e = request.getfixturevalue(case)
    for cycles, rounding in (("cycles", 0), ("calibrated", 2)):
        of = attrgetter(cycles)
        now = sum(getattr(v, f"{cycles}_now") or 0 for v in e.ops.values()) + sum(of(a) or 0 for a in e.added)
        assert abs(sum(of(v) or 0 for v in e.ops.values()) - getattr(result, f"explicit_{cycles}")) <= rounding, cycles
        assert abs(now - of(result)) <= rounding, cycles


@pytest.mark.parametrize("case", ["relus", "shuffled"])
def test_path_costs_are_those_of_whole_graphs(case: str, request: pytest.FixtureRequest) -> None:
    """Never below the optimum with the candidate; 0 for what is chosen."""
    _, e = request.getfixturevalue(case)
    graph, cost, compared = e.run.choices.graph, e.run.cost(), 0
    for node in e.ops:
        found = e.alternatives(node)
        chosen = next((a for a in found if a["chosen"]), None)
        if chosen is None:
            continue
        assert e.path_cycles(chosen["enode"]) == 0
        cls = int(graph.node_class[chosen["enode"]])
        for a in found:
            extra = e.path_cycles(a["enode"])
            if extra is None or a["chosen"]:
                continue
            others = {b["enode"] for b in found if b is not a}
            forced = replace(graph, roots=(*graph.roots, cls), forbidden=graph.forbidden | others)
            least = extract(forced, "asp", time_limit=20)
            assert least.status == "optimal" and extra >= least.cost - cost - 1e-6
            compared += 1
    assert compared
    assert "path_cycles" in json.dumps(e.op_dict(node)) and "path_cycles" not in json.dumps(e.as_dict(False))


def test_what_it_costs_to_do_without(shuffled: tuple[Result, Explanation]) -> None:
    """The extra cycles are those of an exact extraction without the e-node; None where nothing replaces it."""
    result, e = shuffled
    found = 0
    for n, v in e.ops.items():
        if v.verdict != "stayed":
            continue
        r, choices = e.removal(n), result.run.choices
        enode = choices.candidates[result.run.choice[e.position(n)]].enode
        without = {k for k in choices.graph.class_nodes(e.position(n)) if choices.candidates[k].enode is enode}
        graph = replace(choices.graph, forbidden=choices.graph.forbidden | without)
        if r.extra is None:
            with pytest.raises(Exception, match=""):
                extract(graph, "asp")
        else:
            found += 1
            assert r.extra >= extract(graph, "asp").cost - result.run.cost() - 1e-6
            assert r.instead
    gone = next(n for n, v in e.ops.items() if v.verdict != "stayed")
    with pytest.raises(ExplainError, match="did not stay"):
        e.removal(gone)
    assert any(e.removal(n).extra is None for n, v in e.ops.items() if v.verdict == "stayed")


def test_another_winner_is_told(relus: tuple[Result, Explanation]) -> None:
    """Stock's graph won: the explanation says that it is about a candidate that was not used."""
    result, _ = relus
    assert "The stock graph won" in explain(replace(result.run, chosen="stock")).text(removals=False)


def test_json_holds_everything(relus: tuple[Result, Explanation], shuffled: tuple[Result, Explanation]) -> None:
    _, e = relus
    assert not any(op["origins"] for op in shuffled[1].as_dict(removals=False)["ops"])
    data = json.loads(json.dumps(e.as_dict()))
    assert len(data["ops"]) == len(e.ops) == sum(data["counts"].values())
    assert all(op["origins"] for op in data["ops"]) and all(a["origins"] for a in data["added"])
    removed = next(o for o in data["ops"] if o["verdict"] == "removed")
    assert removed["proofs"] and all(len(line) == 2 for p in removed["proofs"] for line in p["lines"])


def test_pictures(relus: tuple[Result, Explanation]) -> None:
    """Well formed; the whole view has the chosen classes, a region shows rejected candidates with their cycles."""
    result, e = relus
    node = next(n for n, v in e.ops.items() if v.op.startswith("transpose"))
    whole, region = view.whole(result.run), view.region(result.run, node, 2)
    assert all(b.chosen and b.candidates[0].chosen for b in whole.boxes)
    assert sum(c.chosen for b in whole.boxes for c in b.candidates) == len(whole.boxes)
    shown = [c for b in region.boxes for c in b.candidates]
    assert any(c.chosen for c in shown) and any(not c.chosen and c.cycles > 0 for c in shown)
    for part in (whole, region):
        texts = [t.text for t in ElementTree.fromstring(view.svg(part)).iter("{http://www.w3.org/2000/svg}text")]
        assert len(texts) >= len(part.boxes)
        assert json.loads(json.dumps(asdict(part)))["boxes"]


@pytest.mark.slow
def test_a_run_that_ran_out_of_time_is_explained(tmp_path: Path) -> None:
    """The saturation with records is slower, and may not stop where the clock stopped the run's."""
    result = optimized(halves, tmp_path, budget=Budget(seconds=1e-6))
    assert result.stop == "time limit"
    assert all(v.verdict == "stayed" or v.rules for v in explain(result).ops.values())


def test_own_rules_must_be_at_hand(relus: tuple[Result, Explanation]) -> None:
    result, _ = relus
    with pytest.raises(ExplainError, match="no-such-rule"):
        explain(replace(result.run, rules=[*result.run.rules, "no-such-rule"]))
    with pytest.raises(ExplainError, match="another e-graph"):
        explain(replace(result.run, rules=[]))
