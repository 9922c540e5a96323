"""Pages and tables that show a benchmark run or a compilation.

For a run, `data` reads and pairs records, `compare` finds regressions between runs, and `write` makes the Markdown file
and the pages with `tables`.
For a compilation, `compilation` makes the page with `sides` and `compiled`.
Every table is a `Table`, and `page` makes every page from a single template.
"""

from eqsat.report.compare import RunComparison, compare
from eqsat.report.compilation import write_page
from eqsat.report.data import RecordedRun
from eqsat.report.write import write

__all__ = ["RecordedRun", "RunComparison", "compare", "write", "write_page"]
