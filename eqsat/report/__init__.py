"""Reports of benchmark runs: `data` reads and pairs records, `compare` finds regressions between runs, `pictures` draws, `graphs`
shows a graph before and after, `write` makes the Markdown and the pages."""

from eqsat.report.compare import RunComparison, compare
from eqsat.report.data import RecordedRun
from eqsat.report.write import write

__all__ = ["RunComparison", "RecordedRun", "compare", "write"]
