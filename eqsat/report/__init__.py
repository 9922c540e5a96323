"""Pages and tables of a benchmark run and of a compilation.

A run: `data` reads and pairs records, and `compare` finds regressions between runs.
`pictures` draws, and `write` makes the Markdown and the pages.
A compilation: `page` writes it from `sides`, `compiled` and `why`.
Both use `table`, `graphs`, `figures`, `environment` and the templates.
"""

from eqsat.report.compare import RunComparison, compare
from eqsat.report.data import RecordedRun
from eqsat.report.page import write_page
from eqsat.report.write import write

__all__ = ["RecordedRun", "RunComparison", "compare", "write", "write_page"]
