"""The store of prices and results, which saves computing them twice.

Entries are addressed by their content; they are stored on disk, and a team can also share them.
An entry consists of bytes under a kind and a name; the name contains everything on which the bytes depend.
An entry is data and never code, and is checked when it is read.
A failure of a store costs time but never a result.
"""
