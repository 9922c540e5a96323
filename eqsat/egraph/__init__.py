"""egglog behind one narrow module, and rules as typed terms: load, saturate, freeze."""
