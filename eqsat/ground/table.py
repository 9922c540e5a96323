"""Tables for the terminal, Markdown, notebooks and pages, and how they write figures; an unknown figure is "-"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape


@dataclass(frozen=True, slots=True)
class Table:
    """The first `words` columns are text, the others numbers.

    A column named "ratio" is after divided by before. In a cell, text between ** is bold.
    links: {first cell of a row: where it leads on a page}.
    folded: whether a page shows it only after a click.
    """

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    links: Mapping[str, str] = field(default_factory=dict)
    folded: bool = False

    @staticmethod
    def of(title: str, note: str, rows: Iterable[Mapping[str, str]], words: int = 1, folded: bool = False) -> Table:
        """Returns the table of rows as {column: cell}, all with the same columns."""
        listed = list(rows)
        header, cells = tuple(listed[0]) if listed else (), tuple(tuple(row.values()) for row in listed)
        return Table(title, note, header, cells, words, folded=folded)

    def markdown(self) -> list[str]:
        """Returns the table's lines, without its title and note."""
        rule = "|" + "---|" * self.words + "--:|" * (len(self.header) - self.words)
        return [*map(_markdown_row, [self.header]), rule, *map(_markdown_row, self.rows)]

    def plain(self) -> list[str]:
        """Returns the table's lines for a terminal, as wide as they need to be."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows)]
        return [
            "  ".join(
                cell.ljust(w) if i < self.words else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))
            ).rstrip()
            for row in (self.header, *self.rows)
        ]

    def judge(self, column: int, cell: str) -> str:
        """Returns the class of a cell in a page's style sheet: "gain" for a ratio below 1, "loss" above, else ""."""
        if self.header[column] != "ratio" or not cell or float(cell.strip("*")) == 1:
            return ""
        return "gain" if float(cell.strip("*")) < 1 else "loss"


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in cells)} |"


def markdown(tables: Iterable[Table]) -> list[str]:
    """Returns the lines of tables below their titles and notes."""
    out = []
    for t in tables:
        out += ["", f"## {t.title}", "", *([t.note, ""] if t.note else []), *t.markdown()]
    return out


def as_html(tables: Iterable[Table], lines: Iterable[str]) -> str:
    """Returns tables, without titles and notes, and lines below them as HTML, for notebooks."""

    def cells(row: Iterable[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"

    shown = (
        f"<table><thead>{cells(t.header, 'th')}</thead><tbody>{''.join(cells(r, 'td') for r in t.rows)}</tbody></table>"
        for t in tables
    )
    return "".join([*shown, *(f"<p>{escape(line)}</p>" for line in lines)])


def number(x: float | None) -> str:
    return "-" if x is None else f"{x:,.0f}"


def ratio(x: float | None) -> str:
    return "" if x is None else f"{x:.3f}"


def share(x: float | None) -> str:
    return "" if x is None else f"{x:.1%}"


def kib(size: float | None) -> str:
    """Returns bytes as KiB."""
    return "-" if size is None else f"{size / 1024:,.1f}"
