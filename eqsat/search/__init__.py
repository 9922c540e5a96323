"""One optimization from the graph that is given to its result: the whole story is in `optimizer.py`."""
