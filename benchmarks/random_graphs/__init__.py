"""Soundness at scale: random legal graphs of all operators, and the e-graphs of real networks; see `__main__.py`."""
