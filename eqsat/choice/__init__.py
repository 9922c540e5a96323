"""What may be chosen from an e-graph: candidates with their prices, what views cost, the graph of a choice, corrections
by Vela's table."""
