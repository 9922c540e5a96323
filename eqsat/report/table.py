"""A table for the terminal, Markdown and pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportTable:
    """The first `words` columns are text, the others numbers.

    A column named "ratio" is after divided by before.
    """

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1

    def markdown(self) -> list[str]:
        """Returns the table's lines, without its title and note."""
        rule = "|" + "---|" * self.words + "--:|" * (len(self.header) - self.words)
        return [f"| {' | '.join(self.header)} |", rule, *(f"| {' | '.join(row)} |" for row in self.rows)]

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
        """Returns the class of a cell in a page's style sheet.

        It is "gain" for a ratio below 1, "loss" for one above, else empty.
        """
        if self.header[column] != "ratio" or not cell or float(cell) == 1:
            return ""
        return "gain" if float(cell) < 1 else "loss"
