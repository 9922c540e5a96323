"""`eqsat.optimize`: FX programs to the e-graph and back.

No other room imports this one.
"""
