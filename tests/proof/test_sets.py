"""Maxima that are broadcast, and equal values that two operators know different limits of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from eqsat.proof import PROVED, extrema, prove, values
from eqsat.proof.field import LANES, Field, words
from eqsat.proof.functions import IDENTITY, Functions
from eqsat.proof.values import Known, Value
from eqsat.tensor.graph import TensorGraph
from tests.term import Term, graph


def below_maximum(turned: bool) -> TensorGraph:
    """x without the maximum of its rows, as softmax has it; in another layout."""

    def made(x: Term) -> Term:
        y = x.transpose(0, 2, 1) if turned else x
        wide, most = (v.rescale("INT32", in_zp=3) for v in (y, y.reduce("max", 1 if turned else 2)))
        return (wide - most).transpose(0, 2, 1) if turned else wide - most

    return graph("x:INT8[3,24,24]", made)


def test_a_maximum_is_one_root_before_it_is_repeated() -> None:
    found = prove(below_maximum(False), below_maximum(True), seed=1)
    assert found.verdict == PROVED


def pools(kernels: Sequence[int]) -> TensorGraph:
    """MAX_POOLs one after the other that keep the size; all results are outputs."""

    def made(x: Term) -> tuple[Term, ...]:
        found = [x]
        for k in kernels:
            found.append(found[-1].largest(k, k, pad=(k // 2,) * 4))
        return tuple(found[1:])

    return graph("x:INT8[1,10,10,8]", made)


def test_maxima_of_maxima_have_each_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pooling of a YOLO: 5 x 5 three times would be 15,625 members, of which 169 differ."""
    made = []
    original = Value.distinct

    def distinct(v: Value) -> Value:
        made.append(original(v))
        return made[-1]

    monkeypatch.setattr(Value, "distinct", distinct)
    monkeypatch.setattr(extrema, "_LARGEST_SETS", 25 * 81 * 800)
    g = pools([5, 5, 5])
    g.outputs, g.output_names = g.outputs[-1:], g.output_names[-1:]
    once = pools([13])
    assert prove(g, once, seed=1).verdict == PROVED
    assert [v.members for v in made] == [81] * 1


def test_sets_that_become_too_large_are_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extrema, "_LARGEST_SETS", 1 << 12)
    monkeypatch.setattr(values, "_AT_ONCE", 1 << 10)
    assert prove(pools([3, 3, 3]), pools([3, 3, 3]), seed=1).verdict == PROVED
    assert prove(pools([3, 5]), pools([3, 3]), seed=1).verdict != PROVED


def test_equal_roots_with_two_intervals_are_noticed() -> None:
    lanes = Field(1).constants([5, 7])
    halves = tuple(w.astype(np.uint64) for w in (lanes[0], lanes[1]))
    twice = [(halves[0], halves[1], np.array(functions)) for functions in ([1, 2], [1, 3])]
    assert not Known(twice[:1]).is_ambiguous and Known(twice).is_ambiguous


@pytest.mark.parametrize("number", [1, 2, 3, 100, 20_000])
def test_roots_are_found_also_among_many_small_constants(number: int) -> None:
    """Their words are not random, so that one bucket has them all."""
    rng = np.random.default_rng(number)
    known, other = (rng.integers(0, 1 << 31, (LANES, number)) for _ in range(2))
    known[1:, ::3], known[0, ::3] = 0, np.arange(len(known[0, ::3]))
    found, functions = Known([(*words(known), np.arange(number))]).find(np.concatenate([other, known], 1))
    assert not found[:number].any() and found[number:].all() and functions.tolist() == list(range(number))


def test_several_functions_have_the_numbers_that_each_has_alone() -> None:
    one, several = Functions(), Functions()
    rows = [
        (0, 5, IDENTITY, 2, 1, 1, 11),
        (0, 5, IDENTITY, 0, 7, 7, 7),
        (0, 5, IDENTITY, 2, 1, 1, 11),
        (3, 4, 0, 1, 0, 3, 4),
    ]
    alone = [one._number(*row[:5], row[5:]) for row in [*rows, *rows]]
    columns = [np.array(c) for c in zip(*rows, strict=True)]
    assert [*several._numbered(*columns), *several._numbered(*columns)] == alone == [0, 1, 0, 2] * 2
    assert all((one.column(c) == several.column(c)).all() for c in ("first", "last", "g", "a", "b", "low", "high"))
