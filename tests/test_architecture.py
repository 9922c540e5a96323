"""Every module has a room, and imports point one way: from the doors down to the tensor language, and never back."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import eqsat
from tests.command import python

ROOT = Path(__file__).parent.parent
#: The rooms, from the ground up, and which of those before it each sees, in their order; "eqsat." is left out. A new
#: room is given its place here, and an import between two rooms that is new is a line that changes here.
SEES = {
    "ground": "",
    "store": "ground",
    "tensor": "",
    "extraction": "ground",
    "target": "ground tensor",
    "tosa": "ground tensor",
    "vela": "ground tensor target tosa",
    "device": "ground tensor target tosa vela",
    "proof": "ground tensor device",
    "egraph": "ground tensor",
    "rules": "tensor vela egraph",
    "cost_models": "ground store tensor target tosa vela device",
    "options": "ground store tensor extraction target vela egraph rules cost_models",
    "choice": "ground tensor extraction target tosa vela egraph cost_models options",
    "verification": "ground tensor target tosa vela device proof options choice",
    "search": "ground store tensor extraction target tosa vela device egraph cost_models options choice verification",
    "runs": "ground tensor extraction target tosa vela egraph cost_models choice search",
    "explain": "ground tensor extraction tosa vela egraph rules options choice search",
    "checking": "ground tensor proof egraph rules explain",
    "executorch": "ground target tosa vela device options search runs",
    "bench": "ground tensor target tosa vela options search runs checking executorch",
    "report": "ground tensor tosa vela egraph search explain bench",
    "cli": "ground store target tosa vela proof egraph rules options search runs explain checking "
    "executorch bench report",
}


def _module(room: str) -> str:
    return room if room in ("extraction", "cost_models") else f"eqsat.{room}"


ROOMS = tuple(map(_module, SEES))
PACKAGES = ("eqsat", "extraction", "cost_models")
TORCH = ("torch", "torchao", "executorch")
#: The rooms that may see torch at all.
TORCH_ROOMS = ("eqsat.target", "eqsat.executorch", "eqsat.bench", "eqsat.cli")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> list[str]:
    """Every module that a file imports, also inside functions; `from a import b` gives "a" and "a.b"."""
    package, out = path.relative_to(ROOT).with_suffix("").parts[:-1], []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            out += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            out += [module, *(f"{module}.{a.name}" for a in node.names)]
    return out


def within(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == r or module.startswith(r + ".") for r in rooms)


def room(module: str) -> str | None:
    return next((r for r in ROOMS if within(module, (r,))), None)


FILES = sorted(f for p in PACKAGES for f in (ROOT / p).rglob("*.py"))
MODULES = {module_of(f): f for f in FILES}


def test_every_module_has_a_room() -> None:
    """`eqsat` itself is the front door: it only names what users import."""
    assert [m for m in MODULES if m != "eqsat" and room(m) is None] == []
    assert [r for r in ROOMS if not any(within(m, (r,)) for m in MODULES)] == []


@pytest.mark.parametrize("name", SEES)
def test_a_room_sees_what_is_written_down_and_lies_below(name: str) -> None:
    """Just that: what a room no longer sees goes from the table."""
    of = _module(name)
    seen = {room(i) for m, f in MODULES.items() if within(m, (of,)) for i in imports(f) if i in MODULES}
    allowed = [_module(r) for r in SEES[name].split()]
    assert seen - {of, None} == set(allowed)
    assert allowed == [r for r in ROOMS[: ROOMS.index(of)] if r in allowed]


def test_there_are_no_circles() -> None:
    """Also none between the modules of a room. A package's own file stands for what it re-exports and is left out."""
    graph = nx.DiGraph()
    for m, f in MODULES.items():
        if f.name != "__init__.py":
            targets = {i for i in imports(f) if i in MODULES and MODULES[i].name != "__init__.py"}
            graph.add_edges_from((m, t) for t in targets)
    assert [c for c in nx.simple_cycles(graph)] == []


def test_modules_that_are_named_in_strings_exist() -> None:
    """Such as those that workers import: a name that is gone is told to nobody there."""
    quoted = re.compile(r"""["'](eqsat\.\w+\.\w+(?::\w+)?)["']""")
    named = [(m, text) for m, f in MODULES.items() for text in quoted.findall(f.read_text())]
    assert len(named) > 10
    assert [(m, text) for m, text in named if text.partition(":")[0] not in MODULES] == []


def test_nothing_is_defined_behind_what_a_command_runs() -> None:
    """As a command it would not be there yet, which no import tells."""
    commands = {}
    for f in (*FILES, *sorted((ROOT / "benchmarks").rglob("*.py"))):
        text = f.read_text()
        body = ast.parse(text).body if "__main__" in text else []
        runs = [k for k, n in enumerate(body) if isinstance(n, ast.If) and "__main__" in ast.unparse(n.test)]
        if runs:
            commands[f.relative_to(ROOT).as_posix()] = len(body) - 1 - runs[0]
    assert "benchmarks/ages.py" in commands and set(commands.values()) == {0}


def test_nothing_is_imported_from_tests_or_benchmarks() -> None:
    assert [(m, i) for m, f in MODULES.items() for i in imports(f) if within(i, ("tests", "benchmarks", "docs"))] == []


@pytest.mark.parametrize("name", [r for r in ROOMS if r not in TORCH_ROOMS])
def test_torch_stays_at_the_doors(name: str) -> None:
    seen = [(m, i) for m, f in MODULES.items() if within(m, (name,)) for i in imports(f) if within(i, TORCH)]
    assert seen == []


def test_only_the_search_sees_everything() -> None:
    """The doors see the search, and none of the rooms that it puts together."""
    inner = ("eqsat.egraph.encoding", "extraction", "cost_models", "eqsat.choice")
    search = [i for m, f in MODULES.items() if within(m, ("eqsat.search",)) for i in imports(f)]
    seen = {r for r in inner if any(within(i, (r,)) for i in search)}
    assert seen == set(inner)
    doors = ("eqsat.executorch", "eqsat.bench", "eqsat.report")
    assert [(m, i) for m, f in MODULES.items() if within(m, doors) for i in imports(f) if within(i, inner)] == []


def test_only_tests_of_the_studies_import_them() -> None:
    """What other tests need does not live in benchmarks/, but for the networks of the zoo."""
    files = [f for f in (ROOT / "tests").rglob("*.py") if not f.is_relative_to(ROOT / "tests" / "benchmarks")]
    wrong = [
        (f.relative_to(ROOT).as_posix(), i)
        for f in files
        if "benchmarks" in f.read_text()
        for i in imports(f)
        if within(i, ("benchmarks",)) and not within(i, ("benchmarks.models",))
    ]
    assert wrong == []


def test_completion_offers_what_there_is_without_importing_it() -> None:
    code = "import eqsat, sys; print(*dir(eqsat)); print('torch' in sys.modules)"
    names, torch = python("-c", code, check=True).stdout.splitlines()
    assert set(eqsat.__all__) | {"__version__"} <= set(names.split())
    assert not {"TYPE_CHECKING", "annotations"} & set(names.split()) and torch == "False"
