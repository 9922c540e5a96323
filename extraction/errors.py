"""The errors that this package raises, all below `ExtractionError`."""


class ExtractionError(Exception):
    """Base of every error of this package."""


class InvalidGraph(ExtractionError, ValueError):
    """The choice graph itself is malformed: an unknown class, a NaN cost, no root."""


class InvalidExtraction(ExtractionError, ValueError):
    """The choice is not an extraction: a class without an e-node, a forbidden e-node, a cycle.

    class_id: the e-class at fault, or None if no single class is.
    """

    def __init__(self, message: str, class_id: int | None = None):
        super().__init__(message)
        self.class_id = class_id


class Infeasible(ExtractionError):
    """Proved: no valid choice exists (some root has no extractable e-node)."""


class SolverUnavailable(ExtractionError):
    """The solver behind an extractor is not installed; the message says which."""
