"""TOSA: flatbuffers in and out, and the reference model."""

from eqsat.tosa.flatbuffer import TosaError, dumps, loads

__all__ = ["TosaError", "dumps", "loads"]
