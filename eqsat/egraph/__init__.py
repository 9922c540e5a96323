"""The e-graph: wraps egglog in one narrow module, and represents rules as typed terms."""
