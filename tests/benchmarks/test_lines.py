"""Lines are counted by tokens, and by room."""

from __future__ import annotations

from benchmarks.lines import count, room, rooms, table

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


def test_a_file_counts_for_its_room() -> None:
    paths = ("eqsat/rules/moves.py", "eqsat/__init__.py", "extraction/graph.py", "tests/a/b.py")
    assert [room(p) for p in paths] == ["eqsat/rules", "eqsat", "extraction", "tests"]
    text = table({"a": {"eqsat": (5, 3)}, "now": rooms([("eqsat/x.py", SOURCE), ("tests/b.py", SOURCE)])})
    assert "| **library** | 5 | 3 | 11 | 4 | +6 |" in text
    assert "| **tests and benchmarks** | 0 | 0 | 11 | 4 | +11 |" in text
