"""`eqsat.optimize`: converts FX programs to the e-graph and back.

No other package imports this one.
"""
