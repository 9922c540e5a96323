"""The command line, one file per command.

`docs/commands.md` lists the exit codes; `common.py` defines them.
"""
