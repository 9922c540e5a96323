"""Decodes, prints and runs what Vela emits for an Ethos-U."""
