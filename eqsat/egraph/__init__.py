"""The e-graph: egglog behind one narrow module, and rules as typed terms."""
