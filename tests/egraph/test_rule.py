"""Rules as terms: what is printed, what runs, and what cannot be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from eqsat.egraph import kinds
from eqsat.egraph.encoding import saturate
from eqsat.egraph.kinds import Call, RuleError, Slice, Unary, Value, op, such
from eqsat.egraph.rule import Rule, rule, with_helpers
from eqsat.egraph.terms import LHS, each, element, extern, fact, let, postpone, symbols
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type


@extern
def seen_by(m: Move, operand: Type) -> Move | None:
    """What an operand sees."""
    return m.restrict(operand.shape)


@extern
def cut(f: Slice, g: Slice) -> tuple[Slice, kinds.Pad]:
    return f, g


@extern
def pointless(f: Unary) -> bool:
    return False


@extern
def weights(k: kinds.Constant) -> kinds.Constant:
    return k


m = symbols("m", Move)
f, g, a = symbols("f", Unary), symbols("g", kinds.Binary), symbols("a", kinds.Axial)
b, concat = symbols("b", Slice), symbols("concat", kinds.Concat)
conv, k, d = symbols("conv", kinds.Conv2d), *symbols("k d", kinds.Constant)
x, y, xs, ys = *symbols("x y", Value), *symbols("xs ys", kinds.Values)
known = fact("known", Value, gives=kinds.Constant)


@pytest.mark.parametrize(
    ("made", "statement"),
    [
        (rule("a", m(f(x)), f(m(x))), "move[m](f(x)) = f(move[m](x))"),
        (rule("a", m(g(x, y)), g(seen_by(m, x)(x), y)), "move[m](g(x, y)) = g(move[seen_by(m, x)](x), y)"),
        (
            rule("a", b(b(x)), let(cut(b, b), lambda c, p: p(c(x)))),
            "slice[b](slice[b](x)) = pad[p](slice[c](x)), where c, p = cut(b, b)",
        ),
        (rule("a", f(x), x, where=pointless(f), removes=True), "f(x) = x, where pointless(f) (removal)"),
        (rule("a", conv(x, k, d), conv(x, weights(k), d)), "conv2d[conv](x, k, d) = conv2d[conv](x, weights(k), d)"),
        (
            rule("a", concat(xs[..., f(x), f(y), ...]), concat(xs[..., f(y), ...])),
            "concat(xs[..., f(x), f(y), ...]) = concat(xs[..., f(y), ...])",
        ),
        (rule("a", f(concat(xs)), concat(each(f, xs))), "f(concat(xs)) = concat(each(f, xs))"),
        (rule("a", known(f(x)), known(x), where=pointless(f)), "known(f(x)) = known(x), where pointless(f)"),
    ],
)
def test_a_statement_is_printed_from_the_terms(made: Rule, statement: str) -> None:
    assert made.statement == statement


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "unbound": (lambda: rule("r", f(x), f(y)), "y is on no left side"),
    "unbound attribute": (lambda: rule("r", f(x), m(x)), "m is on no left side"),
    "unbound in a function": (lambda: rule("r", f(x), f(x), where=pointless(symbols("q", Unary))), "q is on no left"),
    "operands": (lambda: rule("r", g(x), x), "g takes 2 operands, not 1"),
    "operands on the right": (lambda: rule("r", g(x, y), f(x, y)), "f takes 1 operands, not 2"),
    "arguments": (lambda: rule("r", m(x), seen_by(m)(x)), "seen_by does not take 1 arguments"),
    "results as one": (lambda: rule("r", b(x), cut(b, b)), "cut(b, b) stands where a value is wanted"),
    "kind": (lambda: rule("r", f(m(x)), seen_by(f, x)(x)), "f is a pointwise, and a move is wanted"),
    "operator": (lambda: rule("r", a(b(x)), let(cut(a, b), lambda c, p: c(x))), "a is a axial, and a slice is wanted"),
    "value for an attribute": (lambda: rule("r", m(x), seen_by(x, x)(x)), "x is a value, and a move is wanted"),
    "attribute as a value": (lambda: rule("r", m(x), m), "m is a move, and a value is wanted"),
    "not in the pattern": (lambda: rule("r", m(x), seen_by(m, f(x))(x)), "f(x) is no part of the pattern"),
    "two of a name": (lambda: rule("r", f(x), symbols("f", Move)(x)), "two variables are called f"),
    "no concat": (lambda: rule("r", concat(x), x), "x is a value, and a values is wanted"),
    "window": (lambda: rule("r", concat(xs), concat(xs[..., x])), "no such sublist"),
    "a relation": (lambda: rule("r", element(xs, 0, x), x, where=concat(xs)), "holds or not: it cannot be x"),
    "condition": (lambda: rule("r", f(x), x, where=seen_by(m, x)), "seen_by(m, x) stands where a value is wanted"),
    "keys": (lambda: rule("r", known(x, y), known(x)), "the fact known has 1 keys, not 2"),
    "removal": (lambda: rule("r", x, f(x), where=f(x), removes=True), "there is no e-node on the left to be removed"),
}


@pytest.mark.parametrize(("make", "problem"), WRONG.values(), ids=WRONG.keys())
def test_a_rule_that_cannot_be_is_refused(make: Callable[[], Any], problem: str) -> None:
    """The message has the rule, what is wrong, and the file and line where it stands."""
    with pytest.raises(RuleError) as e:
        make()
    where = f"{__file__}:{make.__code__.co_firstlineno}: the rule 'r' cannot be: "
    assert str(e.value).startswith(where) and problem in str(e.value)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: f("x"), "'x' is no term"),
        (lambda: let(cut(b, b), lambda c: c(x)), "gives 2 results, and 1 are named"),
        (lambda: xs[x, ..., y], "has its ellipses at the ends"),
    ],
)
def test_what_can_be_no_term_is_refused(make: Callable[[], Any], problem: str) -> None:
    with pytest.raises(RuleError, match=problem):
        make()


def test_an_operator_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(RuleError, match=r"no operator 'conv3d'; did you mean .*conv2d"):
        op("conv3d")
    with pytest.raises(RuleError, match="no operator 'softmax'; there are abs, add, .*transpose_conv2d"):
        op("softmax")
    with pytest.raises(RuleError, match="holds all of these operators: add P2, clamp P1"):
        op("add", "clamp")


def test_an_extern_says_what_it_takes_and_gives() -> None:
    def untyped(m, operand: Type) -> bool:  # type: ignore[no-untyped-def]
        return True

    def without_result(m: Move):  # type: ignore[no-untyped-def]
        return True

    for fn, problem in ((untyped, "'m' has no type"), (without_result, "result has no type")):
        with pytest.raises(RuleError, match=problem) as e:
            extern(fn)
        assert f"{__file__}:{fn.__code__.co_firstlineno}: extern {fn.__name__!r}" in str(e.value)


def test_an_extern_is_only_handed_what_it_takes() -> None:
    """And what it gives must be what it says."""
    table = cut.table(2)
    slice_, reverse = Call("slice", ()), Call("reverse", ())
    assert table.fn(slice_, reverse) == []
    with pytest.raises(TypeError, match="says it gives a pad"):
        table.fn(slice_, slice_)


def test_where_no_function_looks_at_its_kind_a_symbol_is_asked_for_it() -> None:
    """LHS and a narrow kind: the demand comes first."""
    any_of_one = symbols("any_of_one", kinds.Single)
    (asked,) = rule("a", b(any_of_one(x)), any_of_one(b(x))).compiled.query.demands
    assert asked.extern.fn(Call("slice", ())) == [()] and asked.extern.fn(Call("pad", ())) == []
    assert rule("a", any_of_one(g(x, x)), g(x, x)).compiled.query.demands == ()
    first, second = rule("a", b(f(x)), f(b(x)), where=pointless(f)).compiled.query.demands
    assert first.extern.name.startswith("eqsat.egraph.terms.is.slice") and "pointless" in second.extern.name


def test_kinds_of_a_users_own() -> None:
    either = symbols("either", Annotated[Call, op("slice", "pad")])
    assert rule("a", either(x), x).statement == "slice|pad[either](x) = x"
    with pytest.raises(RuleError, match=r"either is a slice\|pad, and a slice is wanted"):
        rule("a", either(x), let(cut(either, either), lambda c, p: c(x)))
    assert rule("a", m(x), LHS).name == "a"


@extern
def again(operator: kinds.Operator) -> tuple[kinds.Operator, kinds.Operator]:
    return operator, operator


def test_a_function_of_any_operator_gives_one_of_the_same_kind() -> None:
    for symbol in (f, b):
        made = rule("a", symbol(x), let(again(symbol), lambda c, d: c(d(x))))
        (demand,) = [d for d in made.compiled.query.demands if "again" in d.extern.name]
        assert demand.extern.fn(Call("abs", ())) == [(Call("abs", ()), Call("abs", ()))]
    with pytest.raises(RuleError, match="k is a constant, and a Operator is wanted"):
        rule("r", conv(x, k, d), let(again(k), lambda c, _: c(x, k, d)))


def test_rules_bring_those_that_make_what_they_need() -> None:
    later = postpone("later", Move)
    makes = rule("makes", later(m)(x), m(x))
    knows = rule("knows", known(f(x)), weights(known(x)))
    needs = rule("needs", m(concat(xs)), concat(each(later(m), xs)))
    asks = rule("asks", f(x), x, where=known(x))
    others = (makes, knows, rule("other", f(m(x)), m(f(x))))
    assert with_helpers([needs], others) == (needs, makes)
    assert with_helpers([asks], others) == (asks, knows)
    assert not needs.helps and makes.helps and knows.helps
    with pytest.raises(ValueError, match="no rule makes .*known"):
        with_helpers([asks], others[2:])


def test_a_kind_that_is_written_as_an_operator_names_what_to_write() -> None:
    with pytest.raises(RuleError, match=r'add is a kind.*`add = symbols\("add", Annotated\[Call, op\("add"\)\]\)`'):
        op("add")(1, 2)


@pytest.mark.parametrize("number, fires", [(2, True), (3, False)])
def test_numbers_of_a_narrow_kind_are_matched(number: int, fires: bool) -> None:
    """Numbers are not interned, so no rule waits for an interned one of its kind."""
    n = symbols("n", Annotated[int, such("even", int, lambda n: n % 2 == 0)])
    counted = fact("counted", Value, int, gives=int)
    counts = rule("counts", counted(b(x), number), 7, where=b(x))
    graph = TensorGraph()
    graph.outputs = [graph.add("slice", [graph.add_input("x", (6,), "INT8")], start=(2,), size=(3,))]
    uses = rule("uses", b(x), b(x), where=counted(b(x), n))
    matches = saturate(graph, [counts, uses]).saturation.matches
    assert ("uses" in matches) == fires
