"""Discovery: identities that no rule has, found in real graphs, proved, and written as rules to read."""
