"""Pages and tables that show a benchmark run or a compilation."""

from eqsat.report.compilation import write_page
from eqsat.report.data import RecordedRun, RunComparison, compare
from eqsat.report.write import write

__all__ = ["RecordedRun", "RunComparison", "compare", "write", "write_page"]
