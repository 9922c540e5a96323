"""Ethos-U85: its registers, commands and weight streams."""
