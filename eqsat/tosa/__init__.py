"""The TOSA door: flatbuffers in and out, Vela and the reference model in worker processes."""
from eqsat.tosa.flatbuffer import TosaError, dumps, loads

__all__ = ["TosaError", "dumps", "loads"]
