"""Each preset finds the patterns of the pull request that it is named after, soundly, and no rule at all does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eqsat.cli.app import app
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.options.options import OptionError, Options
from eqsat.rules import RULES
from eqsat.rules.presets import CATALOGUE, PRESETS
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import add, conv, finish, relu, rescale, reshape, transpose
from tests.rules.checks import check

IN, OUT = (0, 2, 3, 1), (0, 3, 1, 2)  # NCHW to NHWC and back


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


def graph(build: Callable[[TensorGraph, int], int | tuple[int, ...]], *shape: int) -> TensorGraph:
    g = TensorGraph()
    made = build(g, g.add_input("x", shape or (1, 4, 3, 5), "INT8"))
    return finish(g, *(made if isinstance(made, tuple) else (made,)))


def cut(g: TensorGraph, x: int, low: int, high: int) -> int:
    """x[:, low:high]."""
    n, _, h, w = g.nodes[x].shape
    return g.add("slice", (x,), start=(0, low, 0, 0), size=(n, high - low, h, w))


def cat(g: TensorGraph, *xs: int) -> int:
    return g.add("concat", xs, axis=1)


def add_constant(g: TensorGraph, x: int, shape: tuple[int, ...]) -> int:
    """x + a constant, as ExecuTorch leaves it: an INT8 constant and its RESCALE."""
    k = rescale(g, g.add_const(np.arange(np.prod(shape)).reshape(shape), "INT8"), "INT32", in_zp=3)
    return rescale(g, g.add("add", (rescale(g, x, "INT32"), k)), "INT8", shift=(31,))


def add_one_element(g: TensorGraph, x: int) -> int:
    """x + an input of one element."""
    other = rescale(g, g.add_input("other", (1, 1, 1, 1), "INT8"), "INT32", in_zp=3)
    return rescale(g, g.add("add", (rescale(g, x, "INT32"), other)), "INT8", shift=(31,))


def through(*between: Callable[[TensorGraph, int], int]) -> Callable[[TensorGraph, int], int]:
    """The ops between a transpose and its inverse."""

    def build(g: TensorGraph, x: int) -> int:
        y = transpose(g, x, *IN)
        for step in between:
            y = step(g, y)
        return transpose(g, y, *OUT)

    return build


def fork_down(g: TensorGraph, x: int) -> tuple[int, int]:
    y = relu(g, transpose(g, x, *IN), -50)
    return transpose(g, relu(g, y, -20), *OUT), transpose(g, rescale(g, y, "INT8", shift=(31,)), *OUT)


def branches(g: TensorGraph, x: int) -> int:
    return transpose(g, add(g, transpose(g, x, *IN), transpose(g, relu(g, x, -9), *IN)), *OUT)


def fork_up(g: TensorGraph, x: int) -> tuple[int, int]:
    """One value, transposed for one reader and as it is for another, then joined in the first's layout."""
    y = relu(g, transpose(g, x, *IN), -50)
    return transpose(g, add(g, y, relu(g, y, -9)), *OUT), transpose(g, relu(g, y, 0), *OUT)


def below_squeeze(g: TensorGraph, x: int) -> int:
    y = reshape(g, transpose(g, reshape(g, x, 4, 3, 5), 1, 2, 0), 1, 3, 5, 4)
    return transpose(g, y, *OUT)


def concats(g: TensorGraph, x: int) -> int:
    y = transpose(g, x, *IN)
    return transpose(g, g.add("concat", (y, relu(g, y)), axis=3), *OUT)


def total(g: TensorGraph, x: int) -> int:
    y = g.add("reduce_sum", (rescale(g, transpose(g, x, *IN), "INT32"),), axis=1)
    return transpose(g, rescale(g, y, "INT8", shift=(32,)), *OUT)


def narrowed(g: TensorGraph, x: int) -> int:
    y = g.add("slice", (transpose(g, x, *IN),), start=(0, 1, 1, 1), size=(1, 2, 3, 2))
    return transpose(g, y, *OUT)


def upsampling(g: TensorGraph, x: int) -> int:
    """Every pixel twice in both directions."""
    tiled = g.add("tile", (reshape(g, x, 1, 3, 1, 5, 1, 4),), multiples=(1, 1, 2, 1, 2, 1))
    return reshape(g, tiled, 1, 6, 10, 4)


CASES = [
    ("fuse-tosa-transposes", "identity", lambda g, x: relu(g, transpose(g, x, 0, 1, 2, 3)), moves, 1, 0),
    ("fuse-tosa-transposes", "inverse pair", through(), moves, 2, 0),
    ("fuse-tosa-transposes", "composition", lambda g, x: transpose(g, transpose(g, x, *IN), 0, 1, 3, 2), moves, 2, 1),
    (
        "fuse-tosa-transposes",
        "rescale, relu, rescale",
        through(
            lambda g, y: rescale(g, y, "INT16"),
            lambda g, y: relu(g, y, 0),
            lambda g, y: rescale(g, y, "INT8", shift=(31,)),
        ),
        reorders,
        2,
        0,
    ),
    ("fuse-tosa-transposes", "scalar", through(lambda g, y: add_constant(g, y, (1, 1, 1, 1))), reorders, 2, 0),
    ("fuse-tosa-transposes", "an input of one element", through(add_one_element), reorders, 2, 0),
    ("fuse-tosa-transposes", "fan-out", fork_down, reorders, 4, 0),
    (
        "fuse-tosa-transposes",
        "not beside a tensor",
        through(lambda g, y: add_constant(g, y, (1, 1, 1, 4))),
        reorders,
        2,
        2,
    ),
    ("explicit-permutes", "pair", through(), moves, 2, 0),
    ("explicit-permutes", "elementwise branches", branches, reorders, 3, 0),
    ("explicit-permutes", "constant", through(lambda g, y: add_constant(g, y, (1, 1, 1, 4))), reorders, 2, 0),
    ("explicit-permutes", "fork down", fork_down, reorders, 4, 0),
    ("explicit-permutes", "fork up", fork_up, reorders, 5, 0),
    ("explicit-permutes", "below squeeze", below_squeeze, moves, 4, 0),
    ("explicit-permutes", "cascaded views", lambda g, x: reshape(g, reshape(g, x, 4, 15), 60), moves, 2, 1),
    ("explicit-permutes", "concat", concats, reorders, 3, 0),
    ("explicit-permutes", "mean", total, reorders, 2, 0),
    ("explicit-permutes", "slice", narrowed, reorders, 2, 0),
    ("explicit-permutes", "tile along unit axes", through(upsampling), reorders, 2, 0),
    ("fuse-concat", "one operand", lambda g, x: cat(g, relu(g, x)), copies, 1, 0),
    ("fuse-concat", "exact slice", lambda g, x: cut(g, cat(g, relu(g, x), x), 4, 8), copies, 2, 0),
    (
        "fuse-concat",
        "slices in full",
        lambda g, x: cat(g, cut(g, x, 0, 1), cut(g, x, 1, 3), cut(g, x, 3, 4)),
        copies,
        4,
        0,
    ),
    ("fuse-concat", "slice within", lambda g, x: cut(g, cat(g, relu(g, x), x), 5, 7), copies, 2, 1),
    ("fuse-concat", "slices in part", lambda g, x: cat(g, cut(g, x, 1, 2), cut(g, x, 2, 4)), copies, 3, 1),
    ("fuse-concat", "not slices apart", lambda g, x: cat(g, cut(g, x, 0, 1), cut(g, x, 2, 4)), copies, 3, 3),
    ("fuse-concat", "not a slice across", lambda g, x: cut(g, cat(g, relu(g, x), x), 2, 6), copies, 2, 2),
]


PATTERNS = [f"{p}: {what}" for p, what, *_ in CASES]


@pytest.fixture(scope="module")
def beside_one_another() -> tuple[TensorGraph, dict[str, tuple[int, ...]]]:
    """A graph of all patterns, each with an input of its own, and the outputs of each."""
    g, outputs = TensorGraph(), {}
    for name, (_, _, build, *_) in zip(PATTERNS, CASES, strict=True):
        made = build(g, g.add_input(name, (1, 4, 3, 5), "INT8"))
        outputs[name] = made if isinstance(made, tuple) else (made,)
    return finish(g, *chain.from_iterable(outputs.values())), outputs


@pytest.fixture(scope="module")
def saturated(beside_one_another) -> dict[str, Frozen]:
    """The e-graph of all patterns under each preset that has any, under no rule and under all."""
    return {p: check(beside_one_another[0], PRESETS[p]) for p in {"none", "all", *(p for p, *_ in CASES)}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "preset", "counted", "before", "after"),
    [(name, p, c, n, m) for name, (p, _, _, c, n, m) in zip(PATTERNS, CASES, strict=True)],
    ids=PATTERNS,
)
def test_a_preset_finds_its_patterns(
    beside_one_another, saturated: dict[str, Frozen], pattern: str, preset: str, counted, before: int, after: int
) -> None:
    outputs = beside_one_another[1][pattern]
    assert fewest(saturated["none"], counted, outputs) == before
    assert fewest(saturated[preset], counted, outputs) == after
    assert fewest(saturated["all"], counted, outputs) <= after


def test_a_preset_is_no_more_than_its_seed() -> None:
    """A channel shuffle between convolutions goes into weights; a movement pass cannot do that."""

    def shuffled(g: TensorGraph, x: int) -> int:
        y = reshape(g, transpose(g, reshape(g, conv(g, x, 8), 12, 2, 4), 0, 2, 1), 1, 4, 3, 8)
        return conv(g, y, 4, seed=1)

    g = graph(shuffled)
    assert fewest(check(g, PRESETS["all"]), reorders, g.outputs) == 0
    assert all(fewest(check(g, p.rules), reorders, g.outputs) == 1 for p in CATALOGUE if p.name != "all")


def test_equal_values_in_two_output_slots_stay_two_tensors(tmp_path: Path) -> None:
    """Two equal convolutions become one; two tensors leave the graph, one of them through an IDENTITY, as a constant
    and an input do."""
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 16), "INT8")
    k = g.add_const(np.arange(8), "INT8")
    explicit = dumps(finish(g, conv(g, x, 16, 3), conv(g, x, 16, 3), k, x))
    result = optimize_tosa(
        explicit,
        Target.of("ethos-u85-256"),
        options=Options(effort=1, preset="unique-outputs", cache=tmp_path / "prices", max_sram="any", max_flash="any"),
    )
    chosen = loads(result.tosa)
    assert result.chosen == "eqsat" and result.verified and chosen.output_names == g.output_names
    assert chosen.op_counts() == {"conv2d": 1, "identity": 3, "rescale": 1} and len(set(chosen.outputs)) == 4


def test_presets_are_made_of_known_rules() -> None:
    known = {r.name for r in RULES}
    for p in CATALOGUE:
        assert p.statement and len({r.name for r in p.rules}) == len(p.rules)
        assert {r.name.removesuffix("-scalar").removesuffix("-pointwise") for r in p.rules} <= known
    assert len(PRESETS) == len(CATALOGUE) and [r.name for r in PRESETS["all"]] == [r.name for r in RULES]


def test_an_unknown_preset_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'fuse'") as e:
        Options(preset="fuse")
    assert all(p.name in str(e.value) for p in CATALOGUE)
    (tmp_path / "x.tosa").write_bytes(dumps(graph(through())))
    done = CliRunner().invoke(
        app,
        [
            "optimize",
            str(tmp_path / "x.tosa"),
            "-t",
            "ethos-u85-256",
            "--rules",
            "fuse",
            "-o",
            str(tmp_path / "y.tosa"),
        ],
    )
    assert done.exit_code == 2 and "fuse-concat" in done.stderr and not (tmp_path / "y.tosa").exists()


def test_the_command_line_lists_rules_and_presets() -> None:
    import json

    shown = CliRunner().invoke(app, ["rules"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and all(p.name in shown.output for p in CATALOGUE)
    assert "concat([x]) = x" in shown.output and "channels-right" in shown.output
    record = json.loads(CliRunner().invoke(app, ["rules", "--json"]).stdout)
    listed = {r["name"]: r["statement"] for rules in record["families"].values() for r in rules}
    assert all(listed[r.name] == r.statement for r in RULES)
    assert {p["name"]: len(p["rules"]) for p in record["presets"]} == {p.name: len(p.rules) for p in CATALOGUE}
