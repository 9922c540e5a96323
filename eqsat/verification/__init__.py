"""Checks of compiled graphs: proofs, samples, binaries."""
