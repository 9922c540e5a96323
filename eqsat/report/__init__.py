"""Pages and tables. Of a benchmark run: `data` reads and pairs records, `compare` finds regressions between runs,
`pictures` draws, `write` makes the Markdown and the pages. Of one compilation: `page` writes it, from `sides`,
`compiled` and `why`. Both are made of the same parts: `table`, `graphs`, `figures`, `environment` and the templates."""

from eqsat.report.compare import RunComparison, compare
from eqsat.report.data import RecordedRun
from eqsat.report.page import write_page
from eqsat.report.write import write

__all__ = ["RecordedRun", "RunComparison", "compare", "write", "write_page"]
