"""Lines are counted by tokens, and by room."""

from __future__ import annotations

from benchmarks.lines import count, room, rooms, sources, table

SOURCE = '''"""What it
is."""

import os  # a comment


def f() -> str:
    """Returns a text."""
    # nothing
    return """of
two lines"""
'''


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    assert count(SOURCE) == (11, 4)


def test_rooms_add_up() -> None:
    assert [room(p) for p in ("eqsat/rules/moves.py", "eqsat/__init__.py", "extraction/graph.py", "tests/a/b.py")] == [
        "eqsat/rules",
        "eqsat",
        "extraction",
        "tests",
    ]
    found = rooms(sources())
    text = table({"a": {"eqsat": (5, 3)}, "now": {"eqsat": (7, 4), "tests": (2, 1)}})
    assert found["eqsat/rules"][0] > found["eqsat/rules"][1] > 1000
    assert (
        "| **library** | 5 | 3 | 7 | 4 | +2 |" in text and "| **tests and benchmarks** | 0 | 0 | 2 | 1 | +2 |" in text
    )
