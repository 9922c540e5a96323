"""TOSA: flatbuffers in and out, origins of operators, and the reference model."""

from eqsat.tosa.flatbuffer import TosaError, dumps, loads
from eqsat.tosa.locations import Origin

__all__ = ["Origin", "TosaError", "dumps", "loads"]
