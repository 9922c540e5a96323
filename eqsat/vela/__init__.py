"""Vela: compiles graphs, estimates their cycles, and guards against graphs that Vela compiles incorrectly."""
