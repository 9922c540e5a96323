"""One optimization, from the input graph to its result; `optimizer.py` defines the sequence of steps."""
