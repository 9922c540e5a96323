"""The tensor language: graphs, operators and data movement, with their semantics."""
