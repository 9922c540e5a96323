"""Ethos-U55 and U65: their registers, commands and weight streams."""
