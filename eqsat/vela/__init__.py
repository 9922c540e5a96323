"""Vela: compiling and estimating graphs, and guards against graphs that it compiles wrongly."""
