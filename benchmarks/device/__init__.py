"""Binaries of random graphs, run on the functional model and compared; see `__main__.py`."""
