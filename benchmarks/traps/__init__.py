"""A search for errors of Vela's estimate.

It finds graphs to which Vela assigns more, or less, cycles than bytes and commands explain.
"""
