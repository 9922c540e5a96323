"""Discovery of identities that no rule has: found in real graphs, proved, and written as rules."""
