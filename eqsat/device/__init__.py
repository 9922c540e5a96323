"""Decodes, prints and runs the binaries that Vela emits for an Ethos-U."""
