"""`eqsat.optimize`: programs of FX before lowering, to the e-graph and back; no other room imports this one."""
