"""Generates parts of pages from the code's own tables and from recorded results.

    python -m docs.generate        # writes the parts into the pages

The text between `<!-- generated: NAME -->` and `<!-- end -->` is replaced by the result of PARTS[NAME], so that a view
of the repository also shows it; a test compares the two texts. A mark without an end is replaced when the site is
built, because recorded results are long and are stored in separate files.
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
#: Recorded results whose tables have a separate page; the tables of all other results share one page.
OWN_PAGES = ("benchmarks/results/extraction", "benchmarks/results/operators")
_MARK = re.compile(r"^<!-- generated: (?P<name>.+) -->\n(?P<text>(?:(?!<!-- generated).*\n)*?<!-- end -->\n)?", re.M)
_CODE_OR_SPECIAL = re.compile(r"(`[^`]+`)|([\\`*_\[\]<>|$#])")


def fill(text: str) -> str:
    """Returns a page for the site with all its generated parts. Raises KeyError for an unknown part."""
    return _MARK.sub(lambda m: PARTS[m["name"]](), text)


def renew(text: str) -> str:
    """Returns a page whose parts that have an end are generated again. Raises KeyError for an unknown part."""
    return _MARK.sub(lambda m: _renewed(m["name"]) if m["text"] else m[0], text)


def _renewed(name: str) -> str:
    return f"<!-- generated: {name} -->\n\n{PARTS[name]().strip()}\n\n<!-- end -->\n"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(r) + " |" for r in lines) + "\n"


def _plain(text: str) -> str:
    return _CODE_OR_SPECIAL.sub(lambda m: m[1] or f"\\{m[2]}", " ".join(text.split()))


def _first_line(module: ModuleType) -> str:
    return " ".join((module.__doc__ or "").split("\n\n")[0].split())


def _code(text: str) -> str:
    """Returns code for a cell of a table, in which a bar would end the cell."""
    return "`" + text.replace("|", "\\|") + "`"


def _rules_of(family: ModuleType) -> str:
    """Returns the rules of a family, and then the functions that these rules call."""
    from eqsat.egraph.terms import first_sentence

    written = _table(("rule", "identity"), [(f"`{r.name}`", _code(r.statement)) for r in family.RULES])
    functions = {f.name: first_sentence(f.fn) for r in family.RULES for f in r.compiled.functions}
    called = _table(("function", "result"), [(f"`{n}`", _plain(s)) for n, s in functions.items()])
    return f"{written}\n{called}" if functions else written


def rules() -> str:
    """One section per family of exact rules."""
    from eqsat.rules import FAMILIES

    return "\n".join(
        f"## {f.__name__.rpartition('.')[2]}\n\n{_plain(_first_line(f))}\n\n{_rules_of(f)}" for f in FAMILIES
    )


def presets() -> str:
    from eqsat.rules.presets import CATALOGUE

    return _table(
        ("preset", "rules", "description"),
        [(f"`{p.name}`", str(sum(not r.analysis for r in p.rules)), _plain(p.statement)) for p in CATALOGUE],
    )


def extractors() -> str:
    from extraction.api import BUILT_IN

    return _table(
        ("extractor", "description"),
        [(f"`{n}`", _plain(_first_line(import_module(f"extraction.{n}")).partition(": ")[2])) for n in BUILT_IN],
    )


def cost_models() -> str:
    from cost_models import BUILT_IN, find

    return _table(
        ("cost model", "in cycles", "description"),
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
    """The constants of the calibrated price, each with its value, its range and Vela's figure."""
    from cost_models.calibration import Constant, constants
    from eqsat.target import Target

    def said(c: Constant) -> str:
        if c == Constant.as_in_vela(c.vela):
            return "as in Vela"
        return f"**{c.value:g}**, {c.low:g} to {c.high:g}; Vela {c.vela:g}"

    groups = {"U55": "u55-128", "U65": "u65-256", "U85-128, -256": "u85-256", "U85-512 to -2048": "u85-1024"}
    of = [constants(Target.of(f"ethos-{name}")) for name in groups.values()]
    return _table(("constant", *groups), [(f"`{name}`", *(said(c[name]) for c in of)) for name in of[0]])


def studies() -> str:
    """The studies in `benchmarks`, with what they answer and how long they take."""
    from benchmarks.__main__ import studies

    rows = ((f"`{command}`", _plain(answers), _plain(takes)) for command, answers, takes in studies())
    return _table(("`python -m`", "purpose", "takes"), rows)


def rooms() -> str:
    """The packages with their purposes, from the lowest layer up."""
    from tests.test_architecture import ROOMS

    return _table(("package", "purpose"), [(f"`{r}`", _plain(_first_line(import_module(r)))) for r in ROOMS])


def efforts() -> str:
    """One row per effort, with its budgets."""
    from eqsat.options.options import EFFORTS

    head = (
        "effort",
        "summary",
        "extractor",
        "seconds per extraction",
        "compilations",
        "seconds for the proof of a binary",
    )
    rows = ((e.extractor, e.time_limit, e.compilations, e.binary_time_limit) for e in EFFORTS)
    written = ((f"{x:,}" if isinstance(x, int) else f"{x:g}" if isinstance(x, float) else x for x in r) for r in rows)
    return _table(head, ((str(i), EFFORTS[i].summary, *row) for i, row in enumerate(written)))


def defects(seen: bool) -> str:
    """One row per Vela defect: the defects that binaries show, or the defects that others reported."""
    from benchmarks.vela_defects import GRAPHS
    from eqsat.vela.defects import DEFECTS

    rows = []
    for d in (d for d in DEFECTS if d.seen == seen):
        graph, binary = (" ".join(part.split()) for part in (GRAPHS[d.name].__doc__ or "").split("\n\n"))
        rows.append((f"`{d.name}`: {graph}", binary, *_where(d), _remedy(d)))
    return _table(("graph", "behaviour of the binary", "families", "versions", "remedy"), rows)


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
    """One section per command, with its help, arguments and options."""
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
        table = _table(("argument or option", "meaning"), rows) if rows else ""
        out.append(f"## {path}\n\n{_plain(command.help or '')}\n\n{table}")
    return "\n".join(out)


def keys_of_json() -> str:
    """The keys that `eqsat compile` and `eqsat optimize` print, and those of objects within."""
    from docs import keys

    titles = {
        "Keys of both commands": keys.BOTH,
        "Keys of both commands, lists in `eqsat compile`": keys.EACH,
        "Keys of `eqsat compile` alone": keys.COMPILE,
        "Keys of `eqsat optimize` alone": keys.OPTIMIZE,
        **{f"Keys within `{name}`": told for name, told in keys.nested().items()},
    }
    tables = (
        f"## {title}\n\n{_table(('key', 'value'), ((f'`{k}`', _plain(v)) for k, v in told.items()))}"
        for title, told in titles.items()
    )
    return "\n".join(tables)


def _commands(command, path: str):
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, c in sorted((inner or {}).items()):
        yield from _commands(c, f"{path} {name}")


def results(directory: str) -> str:
    """The Markdown files that benchmarks wrote below a directory, one section for each file."""
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
    "keys of JSON": keys_of_json,
    "rooms": rooms,
    "studies": studies,
    "defects of Vela": partial(defects, True),
    "defects reported elsewhere": partial(defects, False),
    "results of benchmarks/results": partial(results, "benchmarks/results"),
    **{f"results of {d}": partial(results, d) for d in OWN_PAGES},
}


if __name__ == "__main__":
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := renew(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
