"""Planted errors: near-miss rules and edits that change what a graph computes.

The benchmark counts how many of them verification misses.
"""
