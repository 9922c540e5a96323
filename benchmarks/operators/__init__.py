"""Operators and blocks of PyTorch, lowered by stock ExecuTorch and by eqsat; see `__main__.py`."""
