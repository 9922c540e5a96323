"""The errors that this package raises, all below `ExtractionError`."""


class ExtractionError(Exception):
    """Base of every error of this package."""


class InvalidGraph(ExtractionError, ValueError):
    """The choice graph itself is malformed: an unknown class, a NaN cost, no root."""


class InvalidExtraction(ExtractionError, ValueError):
    """A choice that is not an extraction: a class without a node, a forbidden node, a cycle.

    `class_id` is the e-class at fault, or None where no single class is.
    """

    def __init__(self, message: str, class_id: int | None = None):
        super().__init__(message)
        self.class_id = class_id


class Infeasible(ExtractionError):
    """Proved: no valid choice exists (some root has no extractable e-node)."""


class NoChoiceFound(ExtractionError):
    """The extractor gave up before it found a choice; one may exist.

    Only possible with forbidden pairs: without them greedy extraction always finds a choice or
    proves that there is none.
    """


class SolverUnavailable(ExtractionError):
    """The solver behind an extractor is not installed or died at once; the message says which."""
