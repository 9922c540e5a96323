"""Checking rules: soundness, random graphs, rules of the user's own."""
