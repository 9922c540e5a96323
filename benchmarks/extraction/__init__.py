"""Benchmark of the extractors: `python -m benchmarks.extraction DIR`."""
