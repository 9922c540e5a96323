"""Discovery: what is cheaper is found, proved and written as a rule that passes its own test."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.discovery.convolutions import Window
from benchmarks.discovery.find import Discoverer
from benchmarks.discovery.neighbourhoods import Neighbourhood
from benchmarks.discovery.rules import Equality, form_of, module
from eqsat.checking.user_rules import examine, find
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, prove
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tosa import dumps
from tests.term import graph

PLAIN = Window("conv2d", ("plain", 1), ("plain", 1))


def test_an_instance_must_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that gives something else makes no instance."""
    given, wrong = (graph("x:INT8[1,4]", lambda x, high=high: x.clamp(-128, high)) for high in (100, 126))
    form = form_of(given)
    for made in (given, wrong):
        monkeypatch.setattr(Window, "follow", lambda recipe, source, made=made: made)
        instance = Equality.of(given, made, PLAIN).instance(form.attributes, [given.type(0)], [])
        assert (instance is not None) == (made is given)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_a_graph_to_a_rule(tmp_path: Path) -> None:
    """Without the family `blocking`, what it knows of one place is found again, and its rule fires and is sound."""
    rules = tuple(r for r in RULES if r.family != "blocking")
    part = Neighbourhood(graph("x:INT8[1,1,1,24]", lambda x: x.layer(72)), (0, 1))
    with Pool() as pool:
        found = Discoverer(Target.of("ethos-u85-256"), pool, rules).discover(part)
    assert found is not None and found.after < found.known / 3 and prove(part.graph, found.graph).verdict == PROVED
    (tmp_path / "found.tosa").write_bytes(dumps(part.graph))
    (tmp_path / "found.py").write_text(module(found, "found", "a test"))
    report = examine(find(str(tmp_path / "found.py")), graphs=5)
    assert report.matches["found"] and not report.unsound
