"""How well cost models predict Vela.

Equivalent graphs of every network are compiled whole, and compared with the prices and terms of every cost model.
"""
