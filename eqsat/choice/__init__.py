"""The choices that an e-graph offers: candidates, their prices, and the graph that a choice stands for."""
