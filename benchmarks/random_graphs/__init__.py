"""Soundness at scale: random legal graphs over all operators, and the e-graphs of real networks; see `__main__.py`."""
