"""Binaries of random graphs and saved networks, run on the functional model and compared; see `__main__.py`."""
