"""Extraction: chooses one e-node per e-class so that the cost of the entire choice is minimal.

    from extraction import ChoiceGraph, extract
    g = ChoiceGraph.build([[(2, [1]), (5, [])], [(1, [])]], roots=[0])
    extract(g).cost          # 3, proved optimal

The package does not depend on tensors.
It needs numpy and networkx; the exact extractors also need clingo.
"""

from extraction.api import available, extract, find
from extraction.check import check, dag_cost, reachable, tree_cost
from extraction.graph import (
    ChoiceGraph,
    ExtractionError,
    Infeasible,
    InvalidExtraction,
    InvalidGraph,
    SolverUnavailable,
)
from extraction.protocol import Extraction
from extraction.reductions import Reduced, reduce
from extraction.stopping import stopping

__all__ = [
    "ChoiceGraph",
    "Extraction",
    "ExtractionError",
    "Infeasible",
    "InvalidExtraction",
    "InvalidGraph",
    "Reduced",
    "SolverUnavailable",
    "available",
    "check",
    "dag_cost",
    "extract",
    "find",
    "reachable",
    "reduce",
    "stopping",
    "tree_cost",
]
