"""One way to find what users name: built in, entry point, `module:Name`, `file.py:Name`."""

from __future__ import annotations

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from eqsat.ground.files import InputError, PluginError
from eqsat.ground.registry import Registry
from extraction import ChoiceGraph, extract
from tests.command import install

PARTS = Registry("part", "tests.parts", {"path": "pathlib:Path"})
GRAPH = ChoiceGraph.build([[(2, [1]), (5, [])], [(1, [])]], [0])


def test_every_kind_of_name(here: Path) -> None:
    (here / "neighbour_of_parts.py").write_text("VALUE = 7\n")
    (here / "their_parts.py").write_text("from neighbour_of_parts import VALUE\nclass Part: value = VALUE\n")
    install(here, "tests.parts", "whole = their_parts", "part = their_parts:Part", "path = their_parts:Part")
    assert PARTS.find("path") is Path, "built-in names win"
    assert PARTS.find("their_parts:Part").value == 7
    sys.path.insert(0, str(here))  # the fixture's own list
    invalidate_caches()
    assert PARTS.available() == {"whole": "their_parts", "part": "their_parts:Part", "path": "pathlib:Path"}
    assert PARTS.find("part") is PARTS.find("whole").Part
    assert PARTS.find("their_parts.py:Part").value == PARTS.find(str(here / "their_parts.py")).Part.value == 7


def test_a_file_is_read_once_and_again_when_it_changes(here: Path) -> None:
    (here / "my-part.v1.py").write_text("from dataclasses import dataclass\n@dataclass\nclass Part:\n    n: int = 1\n")
    first = PARTS.find("my-part.v1.py:Part")
    assert first().n == 1 and PARTS.find("my-part.v1.py:Part") is first and first.__module__.isidentifier()
    (here / "my-part.v1.py").write_text("class Part:\n    n = 2\n")
    assert PARTS.find("my-part.v1.py:Part").n == 2


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("pth", "", "no part is called 'pth'; there are path; or give file.py:Name, module:Name or an entry point in the group"),
        ("nothing.py:Part", "", "nothing.py does not exist"),
        ("no_module_at_all:Part", "", "there is no module 'no_module_at_all'"),
        ("no_module_at_all.inner:Part", "", "there is no module"),
        ("own.py:Part", "Prat = 1", "own.py has no 'Part'"),
    ],
)  # fmt: skip
def test_an_unknown_name_says_what_is_missing(here: Path, name: str, text: str, words: str) -> None:
    (here / "own.py").write_text(text)
    with pytest.raises(InputError, match=words) as e:
        PARTS.find(name)
    assert not isinstance(e.value, PluginError)


@pytest.mark.parametrize("name", ["broken_parts.py:Part", "broken_parts:Part"])
def test_a_module_that_fails_has_its_cause(here: Path, name: str) -> None:
    (here / "broken_parts.py").write_text("import os\n\nPart = 1 / 0\n")
    with pytest.raises(PluginError, match="cannot import broken_parts.*ZeroDivisionError") as e:
        PARTS.find(name)
    assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_bad_input_that_a_module_meets_has_the_place(here: Path) -> None:
    """It is not taken for a name that nothing has."""
    (here / "own_options.py").write_text("import eqsat\n\nOPTIONS = eqsat.Options(rounds=0)\n")
    with pytest.raises(PluginError, match=r"cannot import own_options.py, line 3: OptionError: rounds is 0") as e:
        PARTS.find("own_options.py:OPTIONS")
    assert isinstance(e.value.__cause__, InputError)


def test_an_extractor_of_a_file(here: Path) -> None:
    (here / "mine.py").write_text(
        "from dataclasses import replace\n"
        "from extraction.tree_greedy import extract as greedy\n"
        "def extract(graph, **given):\n"
        "    return replace(greedy(graph, **given), extractor='mine')\n"
    )
    found = extract(GRAPH, "mine.py:extract")
    assert (found.extractor, found.cost) == ("mine", 3)
    (here / "mine.py").write_text("def extract(graph, time_limit):\n    ...\n")
    for name, words in (
        (
            "mine.py",
            r"mine.py is no extractor: name something in it that is called as \(graph, time_limit=seconds, seed=",
        ),
        ("mine.py:extract", r"is no extractor: it is called as \(graph, .*, and that says: .*'seed'"),
    ):
        with pytest.raises(InputError, match=words):
            extract(GRAPH, name)
