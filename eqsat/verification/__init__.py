"""Checks compiled graphs with proofs, with samples, and by running binaries."""
