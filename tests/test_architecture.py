"""Imports point one way: from the door down to the tensor language, and never back."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("eqsat", "extraction", "cost_models", "benchmarks", "tests")
GROUND = ("eqsat.ir", "eqsat.numerics", "eqsat.movement")
TORCH = ("torch", "torchao", "executorch")
TOP = ("eqsat.optimizer", "eqsat.options", "eqsat.executorch", "eqsat.program", "eqsat.compiling", "eqsat.cli", "eqsat.bench",
       "eqsat.report", "eqsat.explain", "eqsat.runs", "eqsat.user_rules", "eqsat.quantize")


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions; `from a import b` gives "a" and "a.b"."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{a.name}" for a in node.names)


def within(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == r or module.startswith(r + ".") for r in rooms)


def ours(pattern: str) -> list[tuple[str, str]]:
    """(file, module of ours) for the imports of the files that match."""
    files = sorted(ROOT.glob(pattern))
    assert files, pattern
    return [(str(f.relative_to(ROOT)), m) for f in files for m in imports(f) if within(m, OURS)]


ALLOWED = {
    "eqsat/movement.py": (),
    "eqsat/numerics.py": (),
    "eqsat/ir.py": ("eqsat.numerics",),
    "eqsat/target.py": (),
    "eqsat/staging.py": GROUND,
    "eqsat/storage.py": (*GROUND, "eqsat.staging"),
    "eqsat/guards.py": GROUND,
    "eqsat/soundness.py": (*GROUND, "eqsat.egraph"),
    "eqsat/tosa/*.py": (*GROUND, "eqsat.target", "eqsat.tosa"),
    "eqsat/egraph/*.py": (*GROUND, "eqsat.egraph"),
    "eqsat/rules/*.py": (*GROUND, "eqsat.egraph", "eqsat.rules"),
    "eqsat/fx/*.py": (*GROUND, "eqsat.fx", "eqsat.staging", "eqsat.target"),
    "eqsat/choice.py": (*GROUND, "eqsat.egraph", "eqsat.guards", "eqsat.storage", "eqsat.target", "cost_models.protocol", "extraction"),
    "eqsat/archive.py": ("eqsat.files",),
    "eqsat/random_graphs.py": GROUND,
    "eqsat/codec.py": (*GROUND, "eqsat.choice", "eqsat.egraph", "extraction"),
    "eqsat/runs.py": (*GROUND, "eqsat.archive", "eqsat.choice", "eqsat.codec", "eqsat.egraph", "eqsat.explain", "eqsat.target", "eqsat.tosa",
                      "cost_models", "extraction"),
    "eqsat/user_rules.py": (*GROUND, "eqsat.egraph", "eqsat.explain.words", "eqsat.files", "eqsat.random_graphs", "eqsat.rules", "eqsat.soundness"),
    "eqsat/explain/*.py": (*GROUND, "eqsat.choice", "eqsat.egraph", "eqsat.explain", "eqsat.rules", "eqsat.runs", "eqsat.tosa.flatbuffer", "extraction"),
    "eqsat/bench/*.py": ("eqsat.bench", "eqsat.compiling", "eqsat.files", "eqsat.fx", "eqsat.optimizer", "eqsat.options", "eqsat.target", "eqsat.tosa"),
    "eqsat/report/*.py": (*GROUND, "eqsat.bench.cells", "eqsat.bench.records", "eqsat.files", "eqsat.report", "eqsat.tosa"),
    "cost_models/*.py": (*GROUND, "eqsat.staging", "eqsat.target", "eqsat.tosa", "cost_models"),
    "extraction/*.py": ("extraction",),
}


@pytest.mark.parametrize("pattern", ALLOWED)
def test_a_room_sees_only_what_lies_below(pattern: str) -> None:
    wrong = [(f, m) for f, m in ours(pattern) if not within(m, ALLOWED[pattern]) and m not in ("eqsat", "cost_models")]
    assert wrong == []


@pytest.mark.parametrize("room", ["extraction", "cost_models", "eqsat/egraph", "eqsat/rules", "eqsat/tosa", "eqsat/explain"])
def test_torch_stays_at_the_door(room: str) -> None:
    seen = [(f.name, m) for f in sorted((ROOT / room).glob("*.py")) for m in imports(f) if within(m, TORCH)]
    assert seen == []


@pytest.mark.parametrize("file", ["ir.py", "numerics.py", "movement.py", "staging.py", "guards.py", "choice.py", "soundness.py", "archive.py", "codec.py",
                                  "runs.py", "user_rules.py", "random_graphs.py"])
def test_torch_stays_out_of_the_core(file: str) -> None:
    assert [m for m in imports(ROOT / "eqsat" / file) if within(m, TORCH)] == []


def test_only_the_optimizer_sees_everything() -> None:
    """The doors see the optimizer, and none of the rooms that it puts together."""
    rooms = ("eqsat.rules", "eqsat.choice", "eqsat.egraph.encoding", "extraction", "cost_models")
    for file in sorted((ROOT / "eqsat").glob("*.py")):
        seen = {r for r in rooms if any(within(m, (r,)) for m in imports(file))}
        if file.name == "optimizer.py":
            assert seen == set(rooms)
        elif file.name not in ("choice.py", "soundness.py", "codec.py", "options.py", "runs.py", "user_rules.py"):
            assert not seen, file.name


def test_nothing_below_sees_the_doors() -> None:
    for file in sorted([*(ROOT / "eqsat").rglob("*.py"), *(ROOT / "cost_models").rglob("*.py"), *(ROOT / "extraction").rglob("*.py")]):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if not within(name, TOP) and name != "eqsat.__init__":
            assert [m for m in imports(file) if within(m, TOP)] == [], name


def test_packages_do_not_import_tests_or_benchmarks() -> None:
    for room in ("eqsat", "cost_models", "extraction"):
        for file in sorted((ROOT / room).rglob("*.py")):
            assert [m for m in imports(file) if within(m, ("tests",))] == [], file.name
