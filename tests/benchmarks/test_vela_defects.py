"""The installed Vela still compiles wrongly what it was seen to, and nothing else of these graphs."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

import pytest

from benchmarks.vela_defects import DEFECTS, Defect, activation_of_several_images, equal_weights, lost_output, verdict
from eqsat.target import Target
from eqsat.target.families import U55, U85
from eqsat.vela.compile import compile_graph
from eqsat.vela.facts import facts
from eqsat.vela.guards import violations
from eqsat.workers.worker import Worker, WorkerError

VELA = ".".join(version("ethos-u-vela").split(".")[:2])


@pytest.mark.parametrize(
    "defect, accelerator",
    [
        pytest.param(d, a, id=f"{d.name}-{a}")
        for d in DEFECTS
        for a in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
        if Target.of(a).family is U85 or not d.only_u85
    ],
)
def test_what_vela_gets_wrong(defect: Defect, accelerator: str, worker: Worker) -> None:
    target = Target.of(accelerator)
    if VELA not in {v for d in DEFECTS for v in d.wrong_on(target)}:
        pytest.skip("not measured with this version of Vela")
    found = verdict(defect, target, worker)
    assert found.equal is (VELA not in defect.wrong_on(target)), found.reason


@pytest.mark.slow  # Vela uses up a stack of 512 MiB
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
@pytest.mark.parametrize("defect", [d for d in DEFECTS if d.only_u85], ids=lambda d: d.name)
def test_what_vela_does_not_take_for_others(defect: Defect, accelerator: str, worker: Worker) -> None:
    with pytest.raises(WorkerError, match="could not run on NPU|does not survive"):
        verdict(defect, Target.of(accelerator), worker)


def test_a_guard_names_equal_weights_with_other_biases() -> None:
    assert "other biases" in violations(equal_weights(), U55)[0]
    g = equal_weights()
    last = next(n for n in reversed(range(len(g.nodes))) if g.nodes[n].op == "rescale")
    g.nodes[last] = replace(
        g.nodes[last], attrs=tuple((k, (35,) if k == "shift" else v) for k, v in g.nodes[last].attrs)
    )
    assert violations(g, U55) == []


def test_a_guard_names_several_images_where_vela_mixes_them_up() -> None:
    assert len(violations(activation_of_several_images(), U55)) == facts().images_mixed_up


@pytest.mark.skipif(VELA not in ("5.1", "5.2"), reason="not measured with this version of Vela")
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_a_binary_that_has_lost_an_output_counts_as_refused(target: str, worker: Worker) -> None:
    g = lost_output()
    with pytest.raises(WorkerError, match="only 1 of 2 outputs") as e:
        compile_graph(g, Target.of(target), worker)
    assert e.value.refused
    g.outputs, g.output_names = g.outputs[:1], g.output_names[:1]
    assert compile_graph(g, Target.of(target), worker).cycles > 0
