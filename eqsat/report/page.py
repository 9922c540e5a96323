"""Pages: sections of tables, bars and graphs, which one template shows in a file of its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.ground.table import Table


@dataclass(frozen=True, slots=True)
class Tiles:
    """The most important figures: (name, figure, remark)."""

    tiles: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars on one scale, each of parts of several colours.

    rows: (name, length by part, figure at the bar's end). colours: by part; the legend has the parts that occur.
    """

    title: str
    note: str
    rows: Sequence[tuple[str, Mapping[str, float], str]]
    colours: Mapping[str, str]

    @property
    def whole(self) -> float:
        return max((sum(parts.values()) for _, parts, _ in self.rows), default=0) or 1

    @property
    def legend(self) -> dict[str, str]:
        return {k: c for k, c in self.colours.items() if any(parts.get(k) for _, parts, _ in self.rows)}


@dataclass(frozen=True, slots=True)
class View:
    """Graphs side by side.

    before, after: (name, picture) of those that may stand on the left, the first one shown, and of the right one.
    files: contents by name that the reader can keep, for Model Explorer.
    """

    before: Sequence[tuple[str, str]]
    after: tuple[str, str]
    files: Mapping[str, bytes]

    @property
    def links(self) -> dict[str, str]:
        """The files as links that hold them."""
        return {k: f"data:application/json;base64,{base64.b64encode(v).decode()}" for k, v in self.files.items()}


@dataclass(frozen=True, slots=True)
class Text:
    """Text as it is, shown after a click on its title."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; kind: "note", "warning" or "error"."""

    text: str
    kind: str = "note"


Part = Tiles | Bars | View | Text | Note | Table


@dataclass(frozen=True, slots=True)
class Section:
    """A section with a link at the top of the page; without a title it continues the one before."""

    title: str
    parts: Sequence[Part]


def page(title: str, sections: Sequence[Section], links: Mapping[str, str] | None = None) -> bytes:
    """Returns a page. links: to other pages, by their text."""
    import jinja2  # here, since commands that write no page show tables of this package, too

    loader = jinja2.PackageLoader("eqsat.report")
    made = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    script = loader.get_source(made, "page.js")[0].strip()
    # only the page's own script may run: its digest is in the page's security policy
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.tests["of"] = lambda part, kind: type(part).__name__ == kind
    shown = made.get_template("page.html")
    return shown.render(title=title, sections=sections, links=links or {}, script=script, digest=digest).encode()
