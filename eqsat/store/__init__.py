"""What is not computed twice: prices and answers, content-addressed, on disk and, where a team wants it, shared.

An entry is bytes under a kind and a name that says everything the bytes depend on. It is data and never code, and is
checked when it is read. Whatever happens to a store costs time and never a result.
"""
