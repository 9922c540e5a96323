"""Each preset finds the patterns of the pull request that it is named after, soundly, and no rule at all does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.egraph.encoding import ENode, Frozen
from eqsat.options.options import OptionError, Options
from eqsat.rules import RULES
from eqsat.rules.presets import CATALOGUE, PRESETS
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.command import run
from tests.rules.cases import convolved, narrowed, shuffled
from tests.rules.checks import check
from tests.term import Term, finish, graph, inputs, outputs


def reorders(e: ENode) -> bool:
    return e.move is not None and not e.move.is_view


def moves(e: ENode) -> bool:
    return e.move is not None


def copies(e: ENode) -> bool:
    return e.op in ("concat", "slice")


def fewest(frozen: Frozen, counted: Callable[[ENode], bool], outputs: Sequence[int]) -> int:
    """The least number of counted e-nodes in a graph of some outputs, each counted once per path."""
    best: dict[int, float] = {}
    changed = True
    while changed:
        changed = False
        for c, nodes in enumerate(frozen.classes):
            cost = min((counted(e) + sum(best.get(ch, np.inf) for ch in e.children) for e in nodes), default=np.inf)
            if cost < best.get(c, np.inf):
                best[c], changed = cost, True
    return int(sum(best[frozen.handle[o]] for o in outputs))


def added(x: Term, y: Any) -> Term:
    """A quantized addition, of a constant as ExecuTorch leaves it: an INT8 constant and its RESCALE."""
    return (x.rescale("INT32") + y.rescale("INT32", in_zp=3)).rescale("INT8", shift=31)


def counted(x: Term, *shape: int) -> Term:
    return x.const(np.arange(np.prod(shape)).reshape(shape))


def in_int16(x: Term) -> Term:
    return x.nhwc().rescale("INT16").relu(0).rescale("INT8", shift=31).nchw()


def fork_down(x: Term) -> tuple[Term, Term]:
    y = x.nhwc().relu(-50)
    return y.relu(-20).nchw(), y.rescale("INT8", shift=31).nchw()


def fork_up(x: Term) -> tuple[Term, Term]:
    """One value, transposed for one reader and as it is for another, then joined in the first's layout."""
    y = x.nhwc().relu(-50)
    return added(y, y.relu(-9)).nchw(), y.relu(0).nchw()


def upsampling(x: Term) -> Term:
    """Every pixel twice in both directions."""
    return x.reshape(1, 3, 1, 5, 1, 4)("tile", multiples=(1, 1, 2, 1, 2, 1)).reshape(1, 6, 10, 4)


#: A preset, what it finds, a graph of x: INT8[1,4,3,5], and how many e-nodes of a kind a graph needs before and after.
TABLE = """
fuse-tosa-transposes  identity                 x.transpose(0, 1, 2, 3).relu()                            moves 1 0
fuse-tosa-transposes  inverse pair             x.nhwc().nchw()                                           moves 2 0
fuse-tosa-transposes  composition              x.nhwc().transpose(0, 1, 3, 2)                            moves 2 1
fuse-tosa-transposes  rescale, relu, rescale   in_int16(x)                                               reorders 2 0
fuse-tosa-transposes  scalar                   added(x.nhwc(), counted(x, 1, 1, 1, 1)).nchw()            reorders 2 0
fuse-tosa-transposes  an input of one element  added(x.nhwc(), x.input((1, 1, 1, 1))).nchw()             reorders 2 0
fuse-tosa-transposes  fan-out                  fork_down(x)                                              reorders 4 0
fuse-tosa-transposes  not beside a tensor      added(x.nhwc(), counted(x, 1, 1, 1, 4)).nchw()            reorders 2 2
explicit-permutes     pair                     x.nhwc().nchw()                                           moves 2 0
explicit-permutes     elementwise branches     added(x.nhwc(), x.relu(-9).nhwc()).nchw()                 reorders 3 0
explicit-permutes     constant                 added(x.nhwc(), counted(x, 1, 1, 1, 4)).nchw()            reorders 2 0
explicit-permutes     fork down                fork_down(x)                                              reorders 4 0
explicit-permutes     fork up                  fork_up(x)                                                reorders 5 0
explicit-permutes     below squeeze            x.reshape(4, 3, 5).transpose(1, 2, 0).reshape(1, 3, 5, 4).nchw()  moves 4 0
explicit-permutes     cascaded views           x.reshape(4, 15).reshape(60)                              moves 2 1
explicit-permutes     concat                   x.nhwc().concat(x.nhwc().relu(), axis=3).nchw()           reorders 3 0
explicit-permutes     mean  x.nhwc().rescale('INT32').reduce('sum', 1).rescale('INT8', shift=32).nchw()  reorders 2 0
explicit-permutes     slice                    x.nhwc().part(1, 2, 1).part(1, 3, 2).part(1, 2, 3).nchw()  reorders 2 0
explicit-permutes     tile along unit axes     upsampling(x.nhwc()).nchw()                               reorders 2 0
fuse-concat           one operand              x.relu().concat(axis=1)                                   copies 1 0
fuse-concat           exact slice              x.relu().concat(x, axis=1).rows(4, 4)                     copies 2 0
fuse-concat           slices in full           x.rows(0).concat(x.rows(1, 2), x.rows(3), axis=1)         copies 4 0
fuse-concat           slice within             x.relu().concat(x, axis=1).rows(5, 2)                     copies 2 1
fuse-concat           slices in part           x.rows(1).concat(x.rows(2, 2), axis=1)                    copies 3 1
fuse-concat           not slices apart         x.rows(0).concat(x.rows(2, 2), axis=1)                    copies 3 3
fuse-concat           not a slice across       x.relu().concat(x, axis=1).rows(2, 4)                     copies 2 2
"""
CASES = [re.split(r"\s{2,}", line) for line in TABLE.strip().splitlines()]
PATTERNS = [f"{preset}: {what}" for preset, what, *_ in CASES]


@pytest.fixture(scope="module")
def beside_one_another() -> tuple[TensorGraph, dict[str, tuple[int, ...]]]:
    """A graph of all patterns, each with an input of its own, and the outputs of each."""
    g, found = TensorGraph(), {}
    for name, (_, _, text, _) in zip(PATTERNS, CASES, strict=True):
        made = eval(text, {**globals(), "x": Term(g, g.add_input(name, (1, 4, 3, 5), "INT8"))})
        found[name] = tuple(t.n for t in (made if isinstance(made, tuple) else (made,)))
    return finish(g, *chain.from_iterable(found.values())), found


@pytest.fixture(scope="module")
def saturated(beside_one_another) -> dict[str, Frozen]:
    """The e-graph of all patterns under each preset that has any, under no rule and under all."""
    return {p: check(beside_one_another[0], PRESETS[p]) for p in {"none", "all", *(p for p, *_ in CASES)}}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=PATTERNS)
def test_a_preset_finds_its_patterns(beside_one_another, saturated: dict[str, Frozen], case: list[str]) -> None:
    preset, what, _, numbers = case
    kind, before, after = numbers.split()
    outputs = beside_one_another[1][f"{preset}: {what}"]
    assert fewest(saturated["none"], globals()[kind], outputs) == int(before)
    assert fewest(saturated[preset], globals()[kind], outputs) == int(after)
    assert fewest(saturated["all"], globals()[kind], outputs) <= int(after)


def test_a_preset_is_no_more_than_its_seed() -> None:
    """A channel shuffle between convolutions goes into weights; a movement pass cannot do that."""

    def shuffle(x: Term) -> Any:
        return narrowed(convolved(shuffled(narrowed(convolved(x, 8, 1, 1))), 4, 1, 1))

    g = graph("x:INT8[1,4,3,5]", shuffle)
    assert fewest(check(g, PRESETS["all"]), reorders, g.outputs) == 0
    assert all(fewest(check(g, p.rules), reorders, g.outputs) == 1 for p in CATALOGUE if p.name != "all")


def test_equal_values_in_two_output_slots_stay_two_tensors(tmp_path: Path) -> None:
    """Two equal convolutions become one; two tensors leave the graph, one of them through an IDENTITY, as a constant
    and an input do."""
    (x,) = inputs("x:INT8[1,8,8,16]")
    g = outputs(x.layer(16, 3), x.layer(16, 3), x.const(np.arange(8)), x)
    own = Options(effort=1, preset="unique-outputs", cache=tmp_path / "prices", max_sram="any", max_flash="any")
    result = optimize_tosa(dumps(g), Target.of("ethos-u85-256"), options=own)
    chosen = loads(result.tosa)
    assert result.chosen == "eqsat" and result.verified and chosen.output_names == g.output_names
    assert chosen.op_counts() == {"conv2d": 1, "identity": 3, "rescale": 1} and len(set(chosen.outputs)) == 4


def test_presets_are_made_of_known_rules() -> None:
    known = {r.name for r in RULES}
    for p in CATALOGUE:
        assert p.statement and len({r.name for r in p.rules}) == len(p.rules)
        assert {r.name.removesuffix("-scalar").removesuffix("-pointwise") for r in p.rules} <= known
    assert len(PRESETS) == len(CATALOGUE) and [r.name for r in PRESETS["all"]] == [r.name for r in RULES]


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(OptionError, match="'fuse'") as e:
        Options(preset="fuse")
    assert all(p.name in str(e.value) for p in CATALOGUE)


def test_the_command_line_lists_rules_and_presets() -> None:
    import json

    shown = run("rules", env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and all(p.name in shown.output for p in CATALOGUE)
    assert "concat([x]) = x" in shown.output and "channels-right" in shown.output
    record = json.loads(run("rules", "--json").stdout)
    listed = {r["name"]: r["statement"] for rules in record["families"].values() for r in rules}
    assert all(listed[r.name] == r.statement for r in RULES)
    assert {p["name"]: len(p["rules"]) for p in record["presets"]} == {p.name: len(p.rules) for p in CATALOGUE}
