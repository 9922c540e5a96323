"""Memory of terms: what is read is what was written there, or a value that nothing else has."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.device.core.errors import DeviceFault
from eqsat.device.core.operands import ByteRange, Element
from eqsat.proof.binary_memory import ShadowMemory
from eqsat.proof.evaluation import variable
from eqsat.proof.field import Field
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.types import Type

WORD, SHORT, BYTE, UNSIGNED = Element(True, 32), Element(True, 16), Element(True, 8), Element(False, 8)


@pytest.fixture
def terms() -> Terms:
    return Terms(Field(1))


@pytest.fixture
def memory(terms: Terms) -> ShadowMemory:
    return ShadowMemory(terms, {1: 64}, 0)


def at(*places: int) -> np.ndarray:
    return np.array(places)


def same(terms: Terms, x: Value, y: Value) -> list[bool]:
    return [bool(k) for k in (terms.lanes(x) == terms.lanes(y)).all(0)]


def words(terms: Terms, dtype: str = "INT32", number: int = 0) -> Value:
    return variable(terms, number, Type((2,), dtype))


def test_what_is_written_is_read(terms: Terms, memory: ShadowMemory) -> None:
    memory.write_at(1, at(4, 8), WORD, words(terms))
    assert same(terms, memory.read_at(1, at(8, 4), WORD), words(terms).take(at(1, 0))) == [True, True]


@pytest.mark.parametrize("element, places", [(SHORT, (4, 8)), (WORD, (5, 9)), (WORD, (2, 6)), (BYTE, (4, 8))])
def test_other_bytes_of_it_are_a_value_of_their_own(
    element: Element, places: tuple[int, int], terms: Terms, memory: ShadowMemory
) -> None:
    memory.write_at(1, at(4, 8), WORD, words(terms))
    found = memory.read_at(1, at(*places), element)
    assert same(terms, found, words(terms)) == [False, False]
    assert same(terms, found, memory.read_at(1, at(*places), element)) == [False, False]


@pytest.mark.parametrize("place", [4, 5, 7])
def test_what_is_written_over_in_part_is_lost(place: int, terms: Terms, memory: ShadowMemory) -> None:
    memory.write_at(1, at(4, 8), WORD, words(terms))
    memory.write_at(1, at(place, 20), BYTE, words(terms, "INT8", 1))
    assert same(terms, memory.read_at(1, at(4, 8), WORD), words(terms)) == [False, True]


def test_bytes_may_be_moved_one_by_one(terms: Terms, memory: ShadowMemory) -> None:
    """In whatever order; but an element is one only with its bytes in their order."""
    memory.write_at(1, at(0, 4), WORD, words(terms))
    for k in (2, 0, 3, 1):
        memory.copy_pieces(1, [k, 4 + k], 1, [20 + k, 24 + k], 1)
    assert same(terms, memory.read_at(1, at(20, 24), WORD), words(terms)) == [True, True]
    memory.copy_pieces(1, [0, 1], 1, [21, 20], 1)
    assert same(terms, memory.read_at(1, at(20, 24), WORD), words(terms)) == [False, True]
    memory.copy_pieces(1, [0], 1, [24], 2)  # the lower half of another element
    assert same(terms, memory.read_at(1, at(20, 24), WORD), words(terms)) == [False, False]


def test_a_copy_reads_all_before_it_writes(terms: Terms, memory: ShadowMemory) -> None:
    memory.write_at(1, at(0, 1), BYTE, words(terms, "INT8"))
    memory.copy_pieces(1, [0, 1], 1, [1, 2], 1)
    assert same(terms, memory.read_at(1, at(1, 2), BYTE), words(terms, "INT8")) == [True, True]


def test_constants_are_read_as_any_element_and_terms_are_no_constants(terms: Terms, memory: ShadowMemory) -> None:
    memory.fill(1, bytes([1, 0, 0xFF, 0xFF]))
    assert terms.concrete(memory.read_at(1, at(0, 2), SHORT)).tolist() == [1, -1]
    assert terms.concrete(memory.read_at(1, at(0, 2), UNSIGNED)).tolist() == [1, 255]
    assert memory.constant(ByteRange(1, 0, 4)) == bytes([1, 0, 0xFF, 0xFF])
    memory.write_at(1, at(3, 20), BYTE, words(terms, "INT8"))
    with pytest.raises(Undecidable, match="no constants"):
        memory.constant(ByteRange(1, 0, 4))
    with pytest.raises(Undecidable, match="no constants"):
        memory.constant(ByteRange(1, 40, 4))


def test_signs_are_functions(terms: Terms, memory: ShadowMemory) -> None:
    x = words(terms, "INT8")
    memory.write_at(1, at(0, 1), BYTE, x)
    unsigned = memory.read_at(1, at(0, 1), UNSIGNED)
    assert [int(limit[0]) for limit in terms.limits(unsigned)] == [0, 255]
    memory.write_at(1, at(8, 9), UNSIGNED, unsigned)
    assert same(terms, memory.read_at(1, at(8, 9), BYTE), x) == [True, True]


def test_results_that_overlap_are_refused(terms: Terms, memory: ShadowMemory) -> None:
    with pytest.raises(Undecidable, match="overlap"):
        memory.write_at(1, at(4, 6), WORD, words(terms))


@pytest.mark.parametrize("place", [-1, 61, 64])
def test_nothing_lies_beyond_a_region(place: int, terms: Terms, memory: ShadowMemory) -> None:
    with pytest.raises(DeviceFault):
        memory.read_at(1, at(0, place), WORD)
    with pytest.raises(DeviceFault):
        memory.write_at(1, at(0, place), WORD, words(terms))
    with pytest.raises(DeviceFault):
        memory.copy_pieces(1, [0], 1, [place], 4)
