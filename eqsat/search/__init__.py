"""One optimization, from the given graph to its result; `optimizer.py` has the sequence."""
