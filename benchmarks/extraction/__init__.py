"""Extractors on graph files; see `__main__.py`."""
