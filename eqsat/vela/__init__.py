"""Vela: compiling, estimating, and what must never be given to it."""
