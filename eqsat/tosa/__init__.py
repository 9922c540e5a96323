"""TOSA: reads and writes flatbuffers, tracks the origins of operators, and runs the reference model."""

from eqsat.tosa.flatbuffer import TosaError, dumps, loads
from eqsat.tosa.locations import Origin

__all__ = ["Origin", "TosaError", "dumps", "loads"]
