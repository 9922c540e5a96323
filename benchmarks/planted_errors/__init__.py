"""Planted errors: near-miss rules and edits that change what a graph computes, and how many of them verification lets
pass."""
