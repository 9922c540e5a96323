"""The models and configurations that are measured, and the identity of a finished cell."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.executorch.names import MODELS
from eqsat.ground.digest import digest
from eqsat.ground.files import InputError, read_bytes
from eqsat.ground.registry import load, module_spec, split
from eqsat.ground.versions import code, versions

if TYPE_CHECKING:
    from eqsat.options.options import Options

STOCK, BEST, EXPLICIT, EQSAT = "stock", "stock-best", "stock-without-layout-passes", "eqsat"
KINDS = (STOCK, BEST, EXPLICIT, EQSAT)
#: The configuration of records that `python -m benchmarks.litert` adds to a run.
LITERT = "litert"
#: The figure of a record by which peers are at their best.
RANKED_BY = "calibrated"

#: Names that select a whole set of models.
MODEL_SETS = ("zoo", "deployed")

#: The option that names the user's own rules.
_USER_RULES = "user_rules"

#: Packages that decide the figures of cells.
_PACKAGES = (
    *("torch", "torchao", "executorch", "tosa-tools", "ethos-u-vela"),
    *("egglog", "clingo", "networkx", "numpy"),
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A way of a graph from the hook point to Vela: one of KINDS, with options of the optimizer for `eqsat`."""

    kind: str
    options: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def parse(text: str) -> Configuration:
        """Parses `stock`, `eqsat`, or `eqsat:preset=none,extractor=dag_greedy`, or raises InputError."""
        kind, _, rest = text.partition(":")
        if kind not in KINDS or (rest and kind != EQSAT):
            raise InputError(
                f"no configuration is called {text!r}: use {', '.join(KINDS)}, "
                "the last with options as in eqsat:preset=all,extractor=portfolio"
            )
        from eqsat.options.options import Options  # reports read records without the optimizer

        values = ((f.name, getattr(Options(), f.name)) for f in fields(Options))
        # without `remember`: a cell is searched anew
        known = {name: type(value) for name, value in values if type(value) in (str, int, float)}
        known[_USER_RULES] = str
        given: dict[str, Any] = {}
        for pair in filter(None, rest.split(",")):
            name, _, value = pair.partition("=")
            name = name.strip().replace("-", "_")
            if name not in known:
                raise InputError(f"{text!r}: no option of eqsat is called {name!r}; there are {', '.join(known)}")
            try:
                given[name] = known[name](value)
            except ValueError as e:
                raise InputError(f"{text!r}: {name} is a number") from e
        made = Configuration(kind, tuple(sorted(given.items())))
        if kind == EQSAT:
            made.optimizer_options()
        return made

    def optimizer_options(self) -> Options:
        """Returns the optimizer's options. Raises PluginError, and InputError, also for rules that fail their check."""
        from eqsat.checking import user_rules
        from eqsat.options.options import Options

        given = dict(self.options)
        rules = user_rules.load_all(filter(None, [given.pop(_USER_RULES, "")]))
        return Options(**given, rules=rules)

    def plugins(self) -> list[str]:
        """Returns the fingerprints of the plugins and rules that the options name. Raises InputError."""
        if not self.options:
            return []
        from eqsat.checking import user_rules
        from eqsat.options.options import Options, places

        given = dict(self.options)
        rules = user_rules.places(filter(None, [given.pop(_USER_RULES, "")]))
        return [code_of(place) for place in [*places(Options(**given)), *rules]]

    def applies_to(self, model: Model) -> bool:
        """Whether a model has such a cell. A .tosa file has no stock graph, and is its own graph at its best."""
        return not (model.reference.endswith(".tosa") and self.kind == STOCK)

    @property
    def name(self) -> str:
        return (
            self.kind + (":" if self.options else "") + ",".join(f"{k.replace('_', '-')}={v}" for k, v in self.options)
        )


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its short name in records and files, and where it is."""

    name: str
    reference: str

    @staticmethod
    def find(text: str) -> Model:
        """Finds a model by the user's name for it, or raises InputError with the remedy.

        This is a `.tosa` or `.pt2` path, `file.py:callable`, `module:callable`, an entry point of `eqsat.models`, or a
        name of the zoo.
        """
        if text.endswith((".tosa", ".pt2")):
            if not Path(text).is_file():
                raise InputError(f"{text} does not exist")
            return Model(_file_name(Path(text).stem), str(Path(text).resolve()))
        if ":" in text:
            place, _, attribute = text.rpartition(":")
            stem = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
            reference = f"{Path(place).resolve()}:{attribute}" if place.endswith(".py") else text
            return Model(_file_name(stem if attribute == "model" else f"{stem}-{attribute}"), reference)
        named = MODELS.available()
        if text in named:
            return Model(_file_name(text), named[text])
        known = [name for names in model_sets().values() for name in names]
        if text in known:
            return Model(text, f"{_zoo_package()}.{text}:model")
        zoo = f"has {', '.join(known)}" if known else "is found in a clone of the repository only"
        raise InputError(
            f"no model is called {text!r}: the zoo {zoo}; or give a .tosa or .pt2 file, file.py:callable, "
            f"module:callable, or an entry point in the group {MODELS.group!r}"
        )

    def fingerprint(self) -> str:
        """Returns the fingerprint of a file's bytes, or of the model's code (`code_of`). Raises InputError."""
        if self.reference.endswith((".tosa", ".pt2")):
            return key(read_bytes(Path(self.reference)))
        return code_of(self.reference)


def code_of(reference: str) -> str:
    """Returns the fingerprint of the code behind `file.py:name` or `module:name`.

    For a module of a package it is of all of the top-level package, which it may import, except the list of the zoo.
    Raises InputError.
    """
    place, attribute = split(reference)
    if place.endswith(".py"):
        return key(read_bytes(Path(place)), attribute)
    spec = module_spec(place)
    if spec is None or not spec.origin:
        raise InputError(f"there is no module {place}")
    own, (package, _, inner) = Path(spec.origin), place.partition(".")
    if not inner:
        return key(own.read_bytes(), attribute)
    base = next(d for d in own.parents if d.name == package)
    listing = base.parent.joinpath(*_zoo_package().split("."), "__init__.py")
    return key(*(f.read_bytes() for f in sorted({own, *base.rglob("*.py")} - {listing})), attribute)


@cache
def model_sets() -> dict[str, tuple[str, ...]]:
    """Returns {set: names of its models} that the project in the working directory declares. Raises InputError."""
    package = _zoo_package()
    if not package:
        return {}
    try:
        module = load(package)
    except InputError as e:
        raise InputError(f"pyproject.toml names the models {package}, but they cannot be imported: {e}") from e
    return {name: tuple(getattr(module, name.upper())) for name in MODEL_SETS if hasattr(module, name.upper())}


def _zoo_package() -> str:
    """Returns the package with the project's models, "" if there is none.

    `models` in the table [tool.eqsat] of the working directory's pyproject.toml names it. It lists its modules in ZOO,
    and further ones in DEPLOYED; each has a callable `model`.
    """
    try:
        project = tomllib.loads(Path("pyproject.toml").read_text())
    except (OSError, ValueError):
        return ""
    return str(project.get("tool", {}).get("eqsat", {}).get("models", ""))


def _file_name(text: str) -> str:
    """Returns the text as a name in files, without dots, which separate the parts of a saved graph's name."""
    return re.sub(r"[^\w-]", "-", text)


def key(*parts: bytes | str) -> str:
    """Returns the digest of what identifies a result."""
    return digest(p.encode() if isinstance(p, str) else p for p in parts)[:24]


def sources() -> str:
    """Returns the key of all that decides the figures of cells, but for their graphs: these sources and packages."""
    return key(code(), repr(versions(_PACKAGES)))


def all_versions() -> dict[str, str]:
    return versions(("eqsat", *_PACKAGES))
