"""Checks whether rules are sound, including a user's own rules, on e-graphs of given and random graphs."""
