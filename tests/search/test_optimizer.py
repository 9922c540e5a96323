"""The whole way on small graphs: never worse, never wrong, and every failure leaves the best of what is at hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cost_models.calibration import spread
from eqsat.egraph.engine import Budget
from eqsat.ground.files import PluginError
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.options.decision import Figures
from eqsat.options.options import Options
from eqsat.search.given import StockError
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.result import Extracted, Point
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, Type
from eqsat.tosa import TosaError, dumps, loads
from eqsat.tosa.reference import compare
from eqsat.vela.compile import compile_graph, compile_tosa
from eqsat.vela.guards import violations
from eqsat.vela.roofline import bound
from tests.graphs import channel_shuffle, conv, finish, relu, rescale, reshape, residual, transpose, transposed_relus
from tests.planted import DROPPED, RAISES, RETYPED

U55, U85 = Target.of("ethos-u55-128"), Target.of("ethos-u85-256")
#: A cost model that leaves nothing to choose.
REFUSING = "tests.planted_costs:Refusing"
#: What is said of a stock graph that differs.
OTHER = "what stock ExecuTorch makes of this delegate computes something else"


@pytest.fixture
def options() -> Options:
    return Options(effort=1)


def plain_relus(low: int = -100) -> TensorGraph:
    """transposed_relus without its transposes."""
    g = TensorGraph()
    y = conv(g, g.add_input("x", (1, 16, 16, 16), "INT8"), 24)
    for k in range(3):
        y = relu(g, y, low + k)
    return finish(g, conv(g, y, 16, seed=3))


@pytest.mark.parametrize("target", [U55, U85])
def test_a_useless_pair_of_transposes_vanishes(target: Target, options: Options, worker: Worker) -> None:
    explicit = transposed_relus()
    result = optimize_tosa(dumps(explicit), target, options=options)
    chosen = loads(result.tosa)
    assert (result.chosen, result.verified, result.warnings, result.kept) == ("eqsat", True, [], "")
    assert "transpose" not in chosen.op_counts()
    assert result.cycles < result.explicit_cycles == compile_graph(explicit, target, worker).cycles
    assert result.cycles == compile_tosa(result.tosa, target, worker).cycles == sum(result.by_kind.values())
    assert compare(explicit, chosen, worker, trials=10, seed=5).equal
    assert result.stop == "saturated" and result.e_nodes > len(explicit.nodes) and result.coverage == 1
    assert result.stock_cycles is None and result.stock_verified is None and result.stock_by_kind == {}
    assert result.footprint == compile_tosa(result.tosa, target, worker).footprint and result.stock_footprint is None
    assert result.explicit_footprint == compile_graph(explicit, target, worker).footprint != result.footprint
    assert "tosa=" not in repr(result) and "explicit=" not in repr(result), "graphs are no text to read"
    shown, page = str(result), result._repr_html_()
    assert f"{result.explicit_calibrated:,}" in shown and "verified bit for bit: yes" in shown and len(shown) < 2000
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines()]
    assert ["Vela's total", f"{result.explicit_cycles:,}", f"{result.cycles:,}"] in [r[:3] for r in rows if r]
    assert page.count("<tr>") == sum(len(t.rows) + 1 for t in result.tables())
    assert "&lt;b&gt;" in replace(result, warnings=["<b>"])._repr_html_()
    assert result.bound == bound(explicit, compile_graph(explicit, target, worker).rates)
    assert 0 < result.bound.roofline <= result.bound.operators < result.cycles


@pytest.mark.slow
@pytest.mark.parametrize("build", [residual, channel_shuffle])
@pytest.mark.parametrize("target", [U55, U85])
def test_never_worse_than_either_graph(build, target: Target, options: Options, worker: Worker) -> None:
    result = optimize_tosa(dumps(build()), target, stock=dumps(build()), options=options)
    assert result.calibrated <= min(result.stock_calibrated, result.explicit_calibrated)
    assert result.cycles <= result.stock_cycles * (1 + spread(target)), "the estimate may err by its own spread"
    assert compare(build(), loads(result.tosa), worker, seed=3).equal
    assert result.warnings == []


def test_a_better_stock_graph_is_chosen(options: Options, worker: Worker) -> None:
    """With no rules there is nothing else to find."""
    stock = dumps(plain_relus())
    exact = Options(time_limit=2, preset="none")
    result = optimize_tosa(dumps(transposed_relus()), U55, stock=stock, options=exact)
    assert (result.chosen, result.stock_verified, result.tosa) == ("stock", True, stock)
    assert result.kept == "nothing faster was found: stock's graph is kept"
    fewer = result.calibrated - 5
    over = Point("eqsat", Figures(fewer, 1 << 30, 0), False, None, b"")
    assert replace(result, points=[over]).kept.startswith("nothing faster fits into the memory")
    refused = Extracted("dag_greedy", 0, fewer, fewer, None)
    assert replace(result, extractions=[refused]).kept.startswith("what takes fewer cycles was not used")
    unsure = replace(result, extractions=[replace(refused, cycles=result.cycles, gap=1.0)])
    assert unsure.kept == "nothing faster was found, and nothing proves that there is none: stock's graph is kept"
    unproved = replace(result, binary_verified=True, binary_proved=None, binary_samples=2)
    assert "verified in the binary: yes, on 2 samples" in unproved.verdicts()
    assert replace(result, searched=False).kept == "no alternatives were found: stock's graph is kept"
    faster = replace(result.figures["eqsat"], calibrated=fewer)
    assert (
        replace(result, figures={**result.figures, "eqsat": faster}).kept == replace(result, chosen="eqsat").kept == ""
    )
    assert result.cycles == result.stock_cycles == compile_tosa(stock, U55, worker).cycles < result.explicit_cycles


def test_a_wrong_stock_graph_is_rejected(options: Options, worker: Worker) -> None:
    """It is cheap, and differs: no figure is compared with it, and it sets no limit."""
    wrong = finish_early()
    result = optimize_tosa(dumps(transposed_relus()), U55, stock=dumps(wrong), options=options)
    assert (result.stock_verified, result.stock_proved, result.stock_binary_verified) == (False, False, None)
    assert result.chosen == "eqsat" and compare(transposed_relus(), loads(result.tosa), worker).equal
    (told,) = result.warnings
    assert told.startswith(f"{OTHER}: output 0 differs by up to ") and told.endswith(" of 255 steps")
    assert result.stock_cycles is None and result.columns()[0].cycles == result.explicit_cycles
    record = result.record()
    assert record["stock_cycles"] is record["stock_footprint"] is record["command_stream"]["stock"] is None
    assert "stock" not in str(result).replace(told, "") and compile_graph(wrong, U55, worker).corrected < result.cycles
    alone = optimize_tosa(dumps(transposed_relus()), U55, options=options)
    assert (result.limits, result.corrected) == (alone.limits, alone.corrected)


def finish_early() -> TensorGraph:
    """One conv of transposed_relus alone: the right types, the wrong values."""
    g = TensorGraph()
    return finish(g, conv(g, g.add_input("x", (1, 16, 16, 16), "INT8"), 16))


def test_a_stock_graph_with_another_signature_is_rejected(options: Options) -> None:
    g = TensorGraph()
    finish(g, relu(g, g.add_input("x", (1, 2), "INT8")))
    result = optimize_tosa(dumps(transposed_relus()), U55, stock=dumps(g), options=options)
    assert result.stock_verified is False and result.stock_cycles is None
    (told,) = result.warnings
    assert told.startswith(f"{OTHER}: signatures differ")


@pytest.mark.parametrize(("permuted", "equal"), [(False, False), (True, True)])
def test_a_stock_graph_whose_result_has_another_shape_is_read_as_the_runtime_does(
    permuted: bool, equal: bool, options: Options
) -> None:
    """ExecuTorch 1.5.1 loses a permute at an output (pull request 22880); the runtime copies the bytes alone."""

    def graph(moved: bool, *shape: int) -> TensorGraph:
        g = TensorGraph()
        y = relu(g, g.add_input("x", (1, 4, 6, 5), "INT8"))
        y = transpose(g, y, 0, 2, 3, 1) if moved else y
        return finish(g, reshape(g, y, *shape) if shape else y)

    stock = graph(True, 1, 4, 6, 5) if permuted else graph(False)
    result = optimize_tosa(dumps(graph(True)), U55, stock=dumps(stock), options=options)
    assert (result.stock_verified, result.stock_proved) == (equal, equal)
    assert (result.stock_binary_verified, result.stock_cycles is None) == ((True, False) if equal else (None, True))
    told = [w for w in result.warnings if OTHER in w]
    assert len(told) == (not equal)
    assert equal or re.search(
        r"output 0 differs by up to \d+ of 255 steps \(output 0 is \[1, 4, 6, 5\], not \[1, 6", told[0]
    )


def test_an_unreadable_stock_graph_costs_only_itself(options: Options) -> None:
    result = optimize_tosa(dumps(transposed_relus()), U55, stock=dumps(residual())[:500], options=options)
    assert result.chosen == "eqsat" and result.stock_cycles is None
    assert "stock's graph cannot be read" in result.warnings[0]


def test_stocks_own_failure_is_told(options: Options) -> None:
    def stock() -> bytes:
        raise StockError("ValueError: no")

    result = optimize_tosa(dumps(residual()), U55, stock=stock, options=options)
    assert "ValueError: no" in result.warnings[0] and result.verified


@pytest.mark.parametrize("stock", [None, plain_relus, finish_early])
def test_a_bad_rule_leaves_the_best_of_the_rest(stock, options: Options) -> None:
    result = optimize_tosa(
        dumps(transposed_relus()), U55, stock=stock and dumps(stock()), options=replace(options, rules=(RETYPED,))
    )
    assert result.chosen == ("stock" if stock is plain_relus else "explicit") and result.verified
    assert result.stop == "failed" and result.e_nodes == 0
    assert any("EngineError" in w for w in result.warnings)


@pytest.mark.slow
def test_an_unsound_rule_is_caught_by_the_comparison(options: Options, worker: Worker) -> None:
    """It drops every unary op of one type: types fit, values do not."""
    result = optimize_tosa(dumps(transposed_relus()), U55, options=replace(options, rules=(DROPPED,)))
    assert result.chosen == "explicit" and compare(transposed_relus(), loads(result.tosa), worker).equal
    assert any("differs" in w for w in result.warnings)


@pytest.mark.parametrize(
    ("budget", "stop"),
    [
        (Budget(nodes=5), "node limit"),
        (Budget(seconds=0), "time limit"),
    ],
)
def test_a_small_budget_gives_a_sound_result(budget: Budget, stop: str, options: Options, worker: Worker) -> None:
    result = optimize_tosa(dumps(transposed_relus()), U55, options=replace(options, budget=budget))
    assert result.stop == stop and result.calibrated <= result.explicit_calibrated
    assert any("saturation was stopped after 0 s" in w for w in result.warnings) == (stop == "time limit")
    assert compare(transposed_relus(), loads(result.tosa), worker).equal


def test_what_cannot_be_read_or_compiled_is_an_error(options: Options) -> None:
    with pytest.raises(TosaError, match="model.tosa"):
        optimize_tosa(b"nothing", U55, options=options, name="model.tosa")

    def doubled(dtype: str) -> bytes:
        """A sum that is of INT32 alone on an NPU."""
        g = TensorGraph()
        x = g.add_input("x", (1, 4), dtype)
        return dumps(finish(g, g.add("add", [x, x])))

    with pytest.raises(WorkerError) as e:
        optimize_tosa(doubled("INT8"), U55, options=options)
    assert e.value.refused
    with pytest.raises(TosaError, match="^model.tosa has tensors of FP32, and an Ethos-U computes integers only: Runt"):
        optimize_tosa(doubled("FP32"), U55, options=options, name="model.tosa")


def test_operators_that_are_not_modelled_stay(options: Options, worker: Worker) -> None:
    """A TABLE that is an input: coverage says so, the result is verified."""
    g = TensorGraph()
    y = transpose(g, relu(g, transpose(g, g.add_input("x", (1, 8, 16), "INT8"), 0, 2, 1)), 0, 2, 1)
    t = Type((1, 8, 16), "INT8")
    y = g.add(
        "opaque",
        [y, g.add_input("table", (256,), "INT8")],
        tosa="TABLE",
        fields=(),
        shape_operands=(None, None),
        shape=t.shape,
        dtype=t.dtype,
        results=(t,),
    )
    finish(g, relu(g, y, -50))
    result = optimize_tosa(dumps(g), U85, options=options)
    assert loads(result.tosa).op_counts()["table"] == 1
    assert result.opaque == {"table": 1} and 0 < result.coverage < 1
    assert compare(g, loads(result.tosa), worker).equal


def test_unread_inputs_and_repeated_outputs(options: Options) -> None:
    g = TensorGraph()
    x, _ = g.add_input("x", (1, 4, 4, 8), "INT8"), g.add_input("unread", (3,), "INT8")
    y = transpose(g, relu(g, transpose(g, x, 0, 3, 1, 2)), 0, 2, 3, 1)
    finish(g, y, y, relu(g, y, -30))
    result = optimize_tosa(dumps(g), U85, options=options)
    chosen = loads(result.tosa)
    assert chosen.signature() == g.signature() and chosen.output_names == g.output_names
    assert result.verified and result.calibrated <= result.explicit_calibrated


def test_an_operator_without_any_price_is_named(options: Options) -> None:
    """The cost model refuses all, so nothing but the input is there."""
    g = TensorGraph()
    finish(g, relu(g, g.add_input("x", (1, 3, 5, 7), "INT8")))
    result = optimize_tosa(dumps(g), U55, options=replace(options, cost_model=REFUSING))
    assert (result.chosen, result.searched, result.run) == ("explicit", False, None)
    (warning,) = result.warnings
    assert "no form of CLAMP of INT8 (1, 3, 5, 7)" in warning and "has a price" in warning


def sums_of_int48(shared: bool) -> TensorGraph:
    """A convolution without an activation that is an operand of another and of a sum, or that is there for each."""
    g = TensorGraph()
    weights = g.add_const(np.random.default_rng(0).integers(-127, 127, (8, 1, 1, 8)), "INT8")
    x, bias = g.add_input("x", (1, 8, 8, 8), "INT16"), g.add_const(np.zeros(8), "INT48")
    sums = g.add_with("conv2d", [x, weights, bias], makers.conv("INT16"))
    own = sums if shared else g.add_with("conv2d", [x, weights, bias], makers.conv("INT16"))
    branch = g.add_with("clamp", [g.add_with("rescale", [own], _narrowed("INT16", 24))], makers.clamp("INT16", 0))
    again = g.add_with("conv2d", [branch, weights, bias], makers.conv("INT16"))
    both = g.add("add", [g.add_with("rescale", [s], _narrowed("INT32", 13)) for s in (sums, again)])
    return finish(g, g.add_with("rescale", [both], makers.rescale("INT16", 1923147387, 42)))


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_sums_of_int48_that_two_rescales_read_are_computed_twice(target: Target, options: Options) -> None:
    """U55 and U65 refuse one for both."""
    g = sums_of_int48(shared=True)
    result = optimize_tosa(dumps(g), target, options=replace(options, extractor="dag_greedy"))
    assert violations(g, U55.family) == ["an INT48 result read by anything but its one RESCALE"]
    assert violations(loads(result.tosa), U55.family) == []
    assert (result.chosen, result.verified, result.binary_verified) == ("eqsat", True, True)
    assert (result.explicit_cycles is None) == (target.family is not U85.family)


def _narrowed(dtype: str, shift: int) -> Attrs:
    return makers.rescale(dtype, 20000, shift, scale32=False)


def test_equal_cycles_are_decided_by_fewer_operators(options: Options, worker: Worker) -> None:
    """Vela removes a chain of views, so it costs nothing; nobody needs it in the file."""
    g = TensorGraph()
    x = relu(g, g.add_input("x", (1, 1, 1, 64), "INT8"), -50)
    finish(g, reshape(g, reshape(g, x, 1, 1, 64), 1, 64))
    result = optimize_tosa(dumps(g), U85, options=options)
    assert result.calibrated == result.explicit_calibrated and (result.chosen, result.verified) == ("eqsat", True)
    assert loads(result.tosa).op_counts() == {"clamp": 1, "reshape": 1}
    again = optimize_tosa(
        dumps(plain_relus()), U85, stock=dumps(plain_relus()), options=replace(options, preset="none")
    )
    assert again.chosen == "explicit", "what is no better does not replace it"


def test_a_refused_explicit_graph_is_still_the_reference(worker: Worker) -> None:
    explicit = dumps(sums_of_int48(shared=True))
    with pytest.raises(WorkerError):
        compile_tosa(explicit, U55, worker)
    no_search = Options(effort=0)
    result = optimize_tosa(explicit, U55, stock=dumps(sums_of_int48(shared=False)), options=no_search)
    assert result.explicit_cycles is None and result.explicit_by_kind == {} and result.chosen in ("stock", "eqsat")
    assert result.verified and result.calibrated <= result.stock_calibrated and result.run
    assert compare(sums_of_int48(shared=True), loads(result.tosa), worker, trials=4, seed=3).equal
    assert any(w.startswith("Vela refuses the explicit graph") for w in result.warnings)
    with pytest.raises(WorkerError) as e:
        optimize_tosa(explicit, U55, stock=dumps(residual()), options=replace(no_search, cost_model=REFUSING))
    assert e.value.refused, "nothing else is equal"


def widened(shared: bool) -> TensorGraph:
    """Two sums of the same values, which share one RESCALE to INT32 each or have their own."""
    g = TensorGraph()
    inputs = [g.add_input(n, (1, 16, 16, 8), "INT8") for n in "xy"]
    wide = [rescale(g, x, "INT32", shift=(20,)) for x in inputs]
    own = wide if shared else [rescale(g, x, "INT32", shift=(20,)) for x in inputs]
    sums = g.add("add", wide), g.add("sub", own)
    return finish(g, *(rescale(g, y, "INT8", shift=(42,)) for y in sums))


def test_an_explicit_graph_that_breaks_a_guard_does_not_win_unless_its_binary_is_right(options: Options) -> None:
    g = TensorGraph()
    wide = rescale(g, g.add_input("x", (1, 32, 16), "INT8"), "INT32", multiplier=(1 << 30,), shift=(20,), in_zp=3)
    seven = g.add_const(np.full((1, 1, 1), 7), "INT32")
    sums = [g.add(op, [wide, seven]) for op in ("add", "sub")]
    narrow = [rescale(g, y, "INT8", multiplier=(1 << 30,), shift=(41,)) for y in sums]
    shared = dumps(finish(g, wide, *narrow))
    unknown = replace(options, binary_time_limit=0)
    result = optimize_tosa(shared, U55, options=unknown)
    assert result.chosen == "eqsat" and violations(loads(result.tosa), U55.family) == []
    assert result.calibrated > result.explicit_calibrated
    (said,) = (w for w in result.warnings if "was not used for" in w)
    assert f"{result.explicit_calibrated:,} cycles" in said and "21415" in said
    only = optimize_tosa(shared, U55, options=replace(unknown, cost_model=REFUSING))
    assert only.chosen == "explicit" and "the explicit graph is used though it breaks a guard" in only.warnings[-1]
    assert "21415" in only.warnings[-1]
    right = optimize_tosa(shared, U55, options=options)
    assert right.binary_verified and right.calibrated <= right.explicit_calibrated
    assert not any("guard" in w for w in right.warnings)


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_a_rescale_from_int32_to_int32_of_the_input_does_not_end_the_search(target: Target, options: Options) -> None:
    g = TensorGraph()
    x = transpose(g, g.add_input("x", (1, 16, 12, 20), "INT32"), 0, 2, 3, 1)
    wide = rescale(g, x, "INT32", multiplier=(1 << 30,), shift=(31,))
    finish(g, transpose(g, rescale(g, wide, "INT8", shift=(42,)), 0, 3, 1, 2))
    result = optimize_tosa(dumps(g), target, options=replace(options, max_sram="any", max_flash="any"))
    assert result.searched and result.calibrated < result.explicit_calibrated
    assert (result.verified, result.binary_verified, result.warnings) == (True, True, [])


def test_a_stock_graph_that_breaks_a_guard_is_told(options: Options) -> None:
    bad = replace(options, cost_model=REFUSING, binary_time_limit=0)
    result = optimize_tosa(dumps(widened(True)), U55, stock=dumps(widened(True)), options=bad)
    assert (result.chosen, result.stock_verified) == ("stock", True)
    assert "stock ExecuTorch is used though it breaks a guard" in result.warnings[-1]


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"rules": (RAISES,)},
            r"the function 'explode' of the rule 'raises' failed at .*planted\.py:\d+: ZeroDivisionError",
        ),
        (
            {"cost_model": "tests.planted_costs:Raises"},
            r"the cost model .*Raises' failed at .*planted_costs\.py:\d+: Zero",
        ),
        ({"cost_model": "tests.planted_costs:Negative"}, "the cost model Negative gives -1 cycles for"),
        (
            {"extractor": "tests/planted_extractors.py:raises"},
            r"the extractor .*raises' failed at .*planted_extractors\.py:\d+: ZeroDivisionError",
        ),
        ({"extractor": "tests.planted_extractors:empty"}, "the extractor .*empty' gives no valid choice: .*class"),
        ({"extractor": "tests.planted_extractors:boastful"}, "gives a choice of cost .* and calls it 1"),
        (
            {"extractor": "tests.planted_extractors:bare"},
            "the extractor .*bare' gives dict, not an extraction.Extraction",
        ),
    ],
)
def test_a_users_own_code_that_fails_is_an_error(change: dict, words: str, options: Options) -> None:
    with pytest.raises(PluginError, match=words) as e:
        optimize_tosa(dumps(transposed_relus()), U55, stock=dumps(plain_relus()), options=replace(options, **change))
    assert isinstance(e.value.__cause__, Exception) == ("gives" not in words or "no valid" in words)


def test_a_gain_of_next_to_nothing_is_not_offered(options: Options) -> None:
    result = optimize_tosa(dumps(plain_relus()), U55, options=replace(options, preset="none"))
    for cycles, least in ((1_000, 1), (30_000, 30), (1_000_000, 100)):
        figures = {**result.figures, "eqsat": replace(result.figures["eqsat"], calibrated=cycles)}
        for gain, offered in ((least, True), (least - 1, False)):
            over = Point("eqsat", Figures(cycles - gain, 1 << 30, 0), False, True, b"")
            found = replace(result, figures=figures, points=[over])
            assert ("with more memory" in str(found)) is offered is bool(found.offer)
            assert bool(found.passed_over) is (gain > 0)


@pytest.mark.slow
def test_no_cache_is_no_failure(options: Options, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = optimize_tosa(dumps(transposed_relus()), U55, options=replace(options, cache=tmp_path / "file" / "prices"))
    (told,) = result.warnings
    assert result.chosen == "eqsat" and told.startswith("prices are measured anew each time: ")


def test_movement_crosses_gather(options: Options, worker: Worker) -> None:
    """GATHER after transposes that cancel: a member of the language, covered."""
    g = TensorGraph()
    y = transpose(g, relu(g, transpose(g, g.add_input("x", (1, 8, 16), "INT8"), 0, 2, 1)), 0, 2, 1)
    y = g.add("gather", [y, g.add_const(np.array([[3, 0, 5, 5]]), "INT32")])
    finish(g, relu(g, y, -50))
    result = optimize_tosa(dumps(g), U85, options=options)
    counts = loads(result.tosa).op_counts()
    assert counts["gather"] == 1 and "transpose" not in counts
    assert result.opaque == {} and result.coverage == 1 and result.verified
    assert compare(g, loads(result.tosa), worker).equal
