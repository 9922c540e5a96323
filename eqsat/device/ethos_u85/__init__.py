"""Ethos-U85: its own registers, commands and weight stream; memory, fixed-point arithmetic and files are those of the
other families."""
