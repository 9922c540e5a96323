"""The tensor language: graphs, operators, data movement, their semantics."""
