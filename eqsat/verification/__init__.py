"""Checks of compiled graphs: proofs, samples, regions, binaries, deviations."""
