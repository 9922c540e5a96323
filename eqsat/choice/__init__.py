"""The choices of an e-graph: candidates, their prices and the graph of a choice."""
