"""The store of prices and results, which saves computing them twice.

Entries are on this machine's disk, and a team can share them, too.
An entry consists of bytes under a kind and a name; the name contains everything on which the bytes depend.
It is data and never code, and is checked when it is read. A failure of a store costs time but never a result.
"""
