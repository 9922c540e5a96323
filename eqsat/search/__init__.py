"""From an e-graph to the best graph: candidates, their prices, extraction, the writer, the optimizer."""
