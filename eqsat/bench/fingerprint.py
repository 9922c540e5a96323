"""Fingerprints of what a result depends on: code and versions of packages.

The code is what importing a module may run, without comments and docstrings.

>>> from eqsat.bench.fingerprint import closure, fingerprint
>>> sorted(closure(["eqsat.ground.files"]))
['eqsat.ground.files']
>>> fingerprint(["eqsat.ground.files"]) == fingerprint(["eqsat.ground.files"], ["numpy"])
False

Imports are read from the sources, including those inside functions.
Those only for type checkers are left out.
Modules that are imported by a name made at run time must be among the roots.
A package's own file counts if something is imported from it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from eqsat.ground.digest import digest as of_parts
from eqsat.ground.versions import PACKAGES, versions

ROOT = Path(__file__).parent.parent.parent


def digest(*parts: bytes | str) -> str:
    return of_parts(p.encode() if isinstance(p, str) else p for p in parts)[:24]


def fingerprint(
    roots: Iterable[str], installed: Iterable[str] = (), *, base: Path = ROOT, packages: Collection[str] = PACKAGES
) -> str:
    """Returns the fingerprint of all code in the closure of `roots` and of `installed` versions."""
    files = closure(roots, base=base, packages=packages)
    return digest(
        repr(versions(installed)), *(part for m in sorted(files) for part in (m, code(files[m].read_bytes())))
    )


@cache
def code(source: bytes) -> str:
    """Returns the syntax tree of a source as text, without docstrings, comments and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    return ast.dump(tree)


def submodules(package: str) -> list[str]:
    """Returns all modules of a package, as roots if they are imported by name."""
    return sorted(_name(f, ROOT) for f in (ROOT / package).rglob("*.py"))


def closure(roots: Iterable[str], *, base: Path = ROOT, packages: Collection[str] = PACKAGES) -> dict[str, Path]:
    """Returns {module: file} of what importing `roots` may run, within the packages below `base`.

    Raises KeyError for a root outside these packages.
    """
    known = {_name(f, base): f for p in packages for f in (base / p).rglob("*.py")}
    found: dict[str, Path] = {}
    waiting = list(roots)
    for module in waiting:
        if module not in found:
            found[module] = known[module]
            package = module if known[module].name == "__init__.py" else module.rpartition(".")[0]
            waiting += [m for m in _imports(package, known[module].read_bytes()) if m in known]
    return found


def _name(file: Path, base: Path) -> str:
    return ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")


@cache
def _imports(package: str, source: bytes) -> list[str]:
    """Returns the names that a source in a package imports, those of modules among them."""
    parents, found = package.split("."), []
    waiting: list[ast.AST] = [ast.parse(source)]
    for node in waiting:
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found += [module, *(f"{module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.expr):
            waiting += ast.iter_child_nodes(node)
    return found
