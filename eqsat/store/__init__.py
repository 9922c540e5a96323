"""Prices and answers that are not computed twice.

They are content-addressed, on disk and, for a team that wants it, shared.
An entry is bytes under a kind and a name; the name contains all that the bytes depend on.
An entry is data and never code, and is checked when it is read.
A failure of a store costs time and never a result.
"""
