"""The parts of pages that are made from the code's own tables and from recorded results, when the site is built.

A line `<!-- generated: NAME -->` of a page is replaced by what PARTS[NAME] gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqsat.vela.defects import Defect

ROOT = Path(__file__).parent.parent
#: Recorded results whose tables have a page of their own; those of all others share one.
OWN_PAGES = ("benchmarks/results/extraction", "benchmarks/results/cost_models", "benchmarks/results/operators")
_MARK = re.compile(r"^<!-- generated: (.+) -->$", re.M)
_CODE_OR_SPECIAL = re.compile(r"(`[^`]+`)|([\\`*_\[\]<>|$#])")


def fill(text: str) -> str:
    """A page with its generated parts. Raises KeyError for a part that nobody makes."""
    return _MARK.sub(lambda m: PARTS[m[1]](), text)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(r) + " |" for r in lines) + "\n"


def _plain(text: str) -> str:
    return _CODE_OR_SPECIAL.sub(lambda m: m[1] or f"\\{m[2]}", " ".join(text.split()))


def _first_line(module: ModuleType) -> str:
    return " ".join((module.__doc__ or "").split("\n\n")[0].split())


def _code(text: str) -> str:
    """Code in a cell of a table, where a bar would end the cell."""
    return "`" + text.replace("|", "\\|") + "`"


def _rules_of(family: ModuleType) -> str:
    """A family's rules, then the functions that they call."""
    from eqsat.egraph.externs import first_sentence

    written = _table(("rule", "identity"), [(f"`{r.name}`", _code(r.statement)) for r in family.RULES])
    functions = {f.name: first_sentence(f.fn) for r in family.RULES for f in r.functions}
    called = _table(("function", "what it gives"), [(f"`{n}`", _plain(s)) for n, s in functions.items()])
    return f"{written}\n{called}" if functions else written


def rules() -> str:
    """A section per family of exact rules."""
    from eqsat.rules import FAMILIES

    return "\n".join(
        f"## {f.__name__.rpartition('.')[2]}\n\n{_plain(_first_line(f))}\n\n{_rules_of(f)}" for f in FAMILIES
    )


def presets() -> str:
    from eqsat.rules.presets import CATALOGUE

    return _table(
        ("preset", "rules", "what it is"),
        [(f"`{p.name}`", str(sum(not r.analysis for r in p.rules)), _plain(p.statement)) for p in CATALOGUE],
    )


def extractors() -> str:
    from extraction.api import BUILT_IN

    return _table(
        ("extractor", "what it does"),
        [(f"`{n}`", _plain(_first_line(import_module(f"extraction.{n}")).partition(": ")[2])) for n in BUILT_IN],
    )


def cost_models() -> str:
    from cost_models import BUILT_IN, find

    return _table(
        ("cost model", "in cycles", "what it is"),
        [
            (
                f"`{n}`",
                "yes" if find(n).in_cycles else "no",
                _plain(_first_line(import_module(place.partition(":")[0]))),
            )
            for n, place in BUILT_IN.items()
        ],
    )


def constants() -> str:
    """The constants of the calibrated price: value, range and Vela's figure."""
    from cost_models.calibration import Constant, constants
    from eqsat.target import Target

    def said(c: Constant) -> str:
        if c == Constant.as_in_vela(c.vela):
            return "as in Vela"
        return f"**{c.value:g}**, {c.low:g} to {c.high:g}; Vela {c.vela:g}"

    groups = {"U55": "u55-128", "U65": "u65-256", "U85-128, -256": "u85-256", "U85-512 to -2048": "u85-1024"}
    of = [constants(Target.of(f"ethos-{name}")) for name in groups.values()]
    return _table(("constant", *groups), [(f"`{name}`", *(said(c[name]) for c in of)) for name in of[0]])


def rooms() -> str:
    """The rooms from the ground up, with what they are for."""
    from tests.test_architecture import ROOMS

    return _table(("room", "what it is for"), [(f"`{r}`", _plain(_first_line(import_module(r)))) for r in ROOMS])


def efforts() -> str:
    """A row per effort with its budgets."""
    from eqsat.options.effort import EFFORTS

    head = (
        "effort",
        "",
        "e-nodes",
        "extractor",
        "seconds per extraction",
        "compilations",
        "seconds for binaries",
    )
    rows = ((e.budget.nodes, e.extractor, e.time_limit, e.compilations, e.binary_time_limit) for e in EFFORTS)
    written = ((f"{x:,}" if isinstance(x, int) else f"{x:g}" if isinstance(x, float) else x for x in r) for r in rows)
    return _table(head, ((str(i), EFFORTS[i].summary, *row) for i, row in enumerate(written)))


def defects(seen: bool) -> str:
    """A row per defect of Vela, of those that binaries show or of those that others reported."""
    from benchmarks.vela_defects import GRAPHS
    from eqsat.vela.defects import DEFECTS

    rows = []
    for d in (d for d in DEFECTS if d.seen == seen):
        graph, binary = (" ".join(part.split()) for part in (GRAPHS[d.name].__doc__ or "").split("\n\n"))
        rows.append((f"`{d.name}`: {graph}", binary, *_where(d), _remedy(d)))
    return _table(("graph", "what the binary does", "families", "versions", "remedy"), rows)


def _where(defect: Defect) -> tuple[str, str]:
    """Families and versions."""
    from eqsat.target import FAMILIES

    families = ", ".join(f.name.upper() for f in FAMILIES if f.commands in defect.families)
    bounds = (("from", defect.since), ("before", defect.until))
    return families, " ".join(f"{word} {'.'.join(map(str, v))}" for word, v in bounds if v) or "all"


def _remedy(defect: Defect) -> str:
    from eqsat.vela.defects import Copy, Guard

    match defect.remedy:
        case Guard(factor=math.inf):
            return "forbidden"
        case Guard(factor=factor):
            return f"avoided: priced {factor:g} times"
        case Copy():
            return "a copy"
        case _:
            return "none"


def commands() -> str:
    """A section per command with its help, arguments and options."""
    import typer

    from eqsat.cli.app import app

    out = []
    for path, command in _commands(typer.main.get_command(app), "eqsat"):
        rows = [
            (
                f"`{p.name.upper() if p.param_type_name == 'argument' else ', '.join(p.opts)}`",
                _plain(getattr(p, "help", "") or ""),
            )
            for p in command.params
            if p.name != "help"
        ]
        out.append(
            f"## {path}\n\n{_plain(command.help or '')}\n\n{_table(('argument or option', 'meaning'), rows) if rows else ''}"
        )
    return "\n".join(out)


def _commands(command, path: str):
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, c in sorted((inner or {}).items()):
        yield from _commands(c, f"{path} {name}")


def results(directory: str) -> str:
    """The Markdown files that benchmarks wrote below a directory, a section each."""
    found = [
        p for pattern in ("*/report/report.md", "*/*.md", "*.md") for p in sorted((ROOT / directory).glob(pattern))
    ]
    return "\n".join(_section(p) for p in found if directory in OWN_PAGES or not _has_own_page(p))


def _has_own_page(path: Path) -> bool:
    return path.parent.relative_to(ROOT).as_posix() in OWN_PAGES


def _section(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    place = path.relative_to(ROOT)
    title = f"## {path.stem}\n\n" if not text.startswith("# ") else ""
    body = title + re.sub(r"^#", "##", text, flags=re.M)
    head, _, rest = body.partition("\n")
    return f"{head}\n\nFrom `{place}`.\n{rest}\n"


PARTS: dict[str, Callable[[], str]] = {
    "rules": rules,
    "presets": presets,
    "extractors": extractors,
    "cost models": cost_models,
    "constants of the calibration": constants,
    "commands": commands,
    "efforts": efforts,
    "rooms": rooms,
    "defects of Vela": partial(defects, True),
    "defects reported elsewhere": partial(defects, False),
    "results of benchmarks/results": partial(results, "benchmarks/results"),
    **{f"results of {d}": partial(results, d) for d in OWN_PAGES},
}
