"""Pages and tables of a benchmark run and of a compilation.

A run: `data` reads and pairs records, `compare` finds regressions between runs, and `write` makes the Markdown and the
pages of `tables`.
A compilation: `compilation` makes the page of `sides`, `compiled` and `why`.
Every table is a `ReportTable`, and every page is made by `page` from the one template.
"""

from eqsat.report.compare import RunComparison, compare
from eqsat.report.compilation import write_page
from eqsat.report.data import RecordedRun
from eqsat.report.write import write

__all__ = ["RecordedRun", "RunComparison", "compare", "write", "write_page"]
