"""Verification refuses graphs that are nearly equal, each with a known input on which they differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.verification.equality import Verifier
from eqsat.verification.regions import Correspondence
from tests.verification.near_misses import PAIRS, Pair


def shared(source: TensorGraph, found: TensorGraph) -> Correspondence:
    """What both compute in the same way is the same, as in an e-graph."""
    classes: dict[Node, int] = {}

    def numbered(graph: TensorGraph) -> dict[int, int]:
        out: dict[int, int] = {}
        for n in graph.live():
            node = graph.nodes[n]
            out[n] = classes.setdefault(replace(node, inputs=tuple(out[i] for i in node.inputs)), len(classes))
        return out

    at, known = numbered(source), set(classes.values())
    return Correspondence(at, {n: (c, None) for n, c in numbered(found).items() if c in known})


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p.name)
def test_a_near_miss_is_refused(pair: Pair, pool: Pool) -> None:
    want, got = (g.evaluate(pair.witness)[0] for g in (pair.source, pair.found))
    assert (want != got).any(), "no witness"
    reason, _ = Verifier(pair.source, Target.of("ethos-u85-256"), pool, Options()).difference(
        pair.found, shared(pair.source, pair.found)
    )
    assert reason
