"""The engine on a toy language of numbers: limits, externs, and what egglog refuses."""

from __future__ import annotations

import gc
import os
import weakref

import pytest

from eqsat.egraph import engine as engine_module
from eqsat.egraph.engine import Budget, EgglogRule, Engine, EngineError, ExternTable
from eqsat.egraph.kinds import Kind

LANGUAGE = (
    "(sort T)",
    "(constructor Num (i64) T)",
    "(constructor Add (T T) T)",
    "(constructor Twice (T) T)",
    "(sort TV (Vec T))",
    "(constructor All (TV) T)",
    "(function type (T) i64 :no-merge)",
)
GROW = EgglogRule("grow", ("(= t (Num a))",), ("(Twice (Num b))",), (("b", "next", "a"),))
NEXT = ExternTable("next", 1, 1, lambda n: (n + 1,))


def rule(name: str, body: str, head: str, *calls: tuple[str, str, str], analysis: bool = False) -> EgglogRule:
    return EgglogRule(name, (body,), (head,), calls, analysis)


def toy(rules, externs=(), *facts: str) -> Engine:
    engine = Engine(LANGUAGE, externs, rules)
    for f in facts:
        engine.run(f)
    return engine


def value(engine: Engine, n) -> str:
    return f"(Num {engine.intern.id(n)})"


def numbers(engine: Engine) -> list[int]:
    return sorted(engine.intern[a[0]] for n, a, _ in engine.freeze() if n == "Num")


def run(rules, externs, *given: int, **limits) -> tuple[str, list[int]]:
    """Why saturation stops, and the numbers that are there then."""
    with toy(rules, externs) as engine:
        for n in given:
            engine.run(value(engine, n))
        return engine.saturate(Budget(**limits)).stop, numbers(engine)


def test_saturated() -> None:
    swap = rule("swap", "(= t (Add x y))", "(union t (Add y x))")
    with toy([swap], (), "(Add (Num 0) (Num 1))") as engine:
        out = engine.saturate()
        assert out.stop == "saturated"
        assert out.matches == {"swap": 2}  # the one term, then the new one
        assert [i.nodes for i in out.iterations] == [4, 4] and engine.size() == 4
        assert out.seconds >= sum(i.seconds for i in out.iterations) > 0


def test_limits() -> None:
    with toy([GROW], [NEXT]) as engine:
        engine.run(value(engine, 0))
        stop = engine.saturate(Budget(nodes=30, seconds=600, passes=10**6)).stop
        assert stop == "node limit" and 30 < engine.size() < 60
    never = {"nodes": 10**9, "seconds": 600, "passes": 10**6}
    assert run([GROW], [NEXT], 0, **never | {"passes": 7}) == ("pass limit", [*range(8)])
    assert run([GROW], [NEXT], 0, **never, matches=50) == ("match limit", [*range(52)])
    assert run([GROW], [NEXT], 0, **never | {"seconds": 0})[0] == "time limit"


def test_classes_get_their_type_after_a_limit() -> None:
    typing = rule("typing", "(= t (Num a))", "(set (type t) a)", analysis=True)
    with toy([GROW, typing], [NEXT]) as engine:
        engine.run(value(engine, 0))
        assert engine.saturate(Budget(passes=3)).stop == "pass limit"
        frozen = engine.freeze()
        assert {c for n, _, c in frozen if n == "Num"} == {a[0] for n, a, _ in frozen if n == "type"}


def test_externs_may_have_no_answer_or_several() -> None:
    asked = []

    def divisors(n: int):
        asked.append(n)
        return [(d,) for d in range(2, n) if n % d == 0]

    split = rule("split", "(= t (Num a))", "(union t (Twice (Num b)))", ("b", "divisors", "a"))
    assert run([split], [ExternTable("divisors", 1, 1, divisors)], 12) == ("saturated", [2, 3, 4, 6, 12])
    assert sorted(asked) == [2, 3, 4, 6, 12]  # each demand is answered once
    halve = ExternTable("halve", 1, 1, lambda n: (n // 2,) if n % 2 == 0 else None)
    halves = rule("halves", "(= t (Num a))", "(Num b)", ("b", "halve", "a"))
    assert run([halves], [halve], 20) == ("saturated", [5, 10, 20])


def test_calls_of_a_rule_feed_one_another() -> None:
    externs = [
        ExternTable("plus", 2, 1, lambda a, b: (a + b,)),
        ExternTable("both", 1, 2, lambda a: (a, 10 * a)),
        ExternTable("odd", 1, 0, lambda a: () if a % 2 else None),
    ]
    chain = rule(
        "chain", "(= t (Num a))", "(Twice (Num s))", ("p q", "both", "a"), ("s", "plus", "p q"), ("", "odd", "s")
    )
    assert run([chain], externs, 2, 3, passes=3)[1] == [2, 3, 33, 363, 3993]


def test_a_rule_waits_for_attributes_of_the_kinds_that_it_needs() -> None:
    """It then also finds what was there before, and it is looked at in each pass only from then on."""
    big = Kind("big", int, lambda n: n > 3)
    late = EgglogRule("late", ("(= t (Num a))",), ("(Twice t)",), needs=frozenset({big}))
    never = EgglogRule("never", ("(= t (NoSuch x))",), ("(union t x)",), needs=frozenset({Kind("word", str)}))
    with toy([late, never], (), "(Num 0)") as engine:
        engine.intern.id(3)
        assert engine.saturate().matches == {}
        engine.run(value(engine, 4))
        assert engine.saturate().matches == {"late": 2}
    with toy([late, GROW], [NEXT]) as engine:  # the numbers that are there when a function gives 4
        engine.run(value(engine, 1))
        assert engine.saturate(Budget(passes=3)).matches == {"grow": 3, "late": 3}


def test_an_unsound_rule_is_stopped() -> None:
    """One class, two types."""
    typing = rule("typing", "(= t (Num a))", "(set (type t) a)", analysis=True)
    wrong = rule("wrong", "(= t (Twice x))", "(union t x)")
    with (
        toy([typing, wrong], (), "(set (type (Twice (Num 1))) 7)") as engine,
        pytest.raises(EngineError, match="wrong|type|merge"),
    ):
        engine.saturate()


@pytest.mark.parametrize(
    "text",
    ["(", "(Num", "(NoSuch 1)", '(Num "x")', "(run-schedule nothing)", '(input nowhere "no.tsv")', "(union (Num 1) 2)"],
)
def test_what_egglog_refuses_is_an_engine_error(text: str) -> None:
    with toy([]) as engine, pytest.raises(EngineError, match="egglog"):
        engine.run(text)


@pytest.mark.parametrize(
    "bad",
    [
        rule("bad", "(= t (NoSuch x))", "(union t x)"),
        rule("bad", "(= t (Num a))", "(union t unbound)"),
        rule("bad", "(= t (Num a))", "(Num b)", ("b", "no-extern", "a")),
    ],
)
def test_a_bad_rule_is_an_error_that_leaves_no_files(
    bad: EgglogRule, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_FACTS", str(tmp_path))
    with pytest.raises(EngineError):
        toy([bad])
    assert list(tmp_path.iterdir()) == []


def test_freeze_decodes_terms_and_vectors() -> None:
    with toy(
        [], (), "(let a (Num 4))", "(let b (Num 5))", "(union b (Twice a))", "(All (vec-of a b a))", "(set (type a) 9)"
    ) as engine:
        frozen = engine.freeze()
        cls = {args[0]: c for name, args, c in frozen if name == "Num"}
        assert set(cls) == {4, 5} and cls[4] != cls[5]
        assert [(args, c) for name, args, c in frozen if name == "Twice"] == [((cls[4],), cls[5])]
        assert [args for name, args, _ in frozen if name == "All"] == [((cls[4], cls[5], cls[4]),)]
        assert [(args, c) for name, args, c in frozen if name == "type"] == [((cls[4],), 9)]


def test_an_engine_is_gone_with_its_last_reader() -> None:
    """The collector may run in any thread, and egglog's e-graph must be deleted in that which made it."""
    gc.disable()
    try:
        engine = toy([], (), "(Twice (Num 1))", "(All (vec-of (Num 1)))")
        engine.freeze()
        gone = weakref.ref(engine)
        engine.close()
        del engine
        assert gone() is None
    finally:
        gc.enable()


def test_an_engine_leaves_no_files() -> None:
    with toy([GROW], [NEXT]) as engine:
        directory = engine._directory
        assert os.path.isdir(directory)
    assert not os.path.exists(directory)
