"""Soundness checks of rules, including a user's own, on e-graphs of given and random graphs."""
