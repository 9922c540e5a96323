"""The command line, one file per command; `common.py` defines the exit codes."""
